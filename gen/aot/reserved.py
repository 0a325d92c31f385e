"""Words that a name in C may not be: reserved words, macros, and what C libraries define.

These tables are data. ``names`` chooses names that are in none of them. Words of C, C++ and
JavaScript are reserved for every target, so that a function has the same names everywhere.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words("""
    alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor
    bool break case catch char char16_t char32_t char8_t class co_await co_return co_yield compl
    concept const const_cast consteval constexpr constinit continue contract_assert decltype
    default delete do double dynamic_cast else enum explicit export extern false float for
    friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or
    or_eq private protected public register reinterpret_cast requires restrict return short
    signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual
    void volatile wchar_t while xor xor_eq
""")
"""The reserved words of C up to C23, and of C++ up to C++26."""

SCRIPT = _words("""
    arguments await constructor debugger eval extends finally function hasOwnProperty implements
    import in instanceof interface isPrototypeOf let null package propertyIsEnumerable super
    toLocaleString toString undefined valueOf var with yield
""")
"""The reserved words of JavaScript in modules, and the members that every object has."""

MACROS = _words("""
    BIG_ENDIAN BUFSIZ BYTE_ORDER CHAR_BIT CLOCK_MONOTONIC CLOCK_REALTIME CLOCKS_PER_SEC complex
    DECIMAL_DIG E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EADV EAFNOSUPPORT EAGAIN EALREADY EBADE
    EBADF EBADFD EBADMSG EBADR EBADRQC EBADSLT EBFONT EBUSY ECANCELED ECHILD ECHRNG ECOMM
    ECONNABORTED ECONNREFUSED ECONNRESET EDEADLK EDEADLOCK EDESTADDRREQ EDOM EDOTDOT EDQUOT
    EEXIST EFAULT EFBIG EHOSTDOWN EHOSTUNREACH EHWPOISON EIDRM EILSEQ EINPROGRESS EINTR EINVAL
    EIO EISCONN EISDIR EISNAM EKEYEXPIRED EKEYREJECTED EKEYREVOKED EL2HLT EL2NSYNC EL3HLT EL3RST
    ELIBACC ELIBBAD ELIBEXEC ELIBMAX ELIBSCN ELNRNG ELOOP EMEDIUMTYPE EMFILE EMLINK EMSGSIZE
    EMULTIHOP ENAMETOOLONG ENAVAIL ENETDOWN ENETRESET ENETUNREACH ENFILE ENOANO ENOBUFS ENOCSI
    ENODATA ENODEV ENOENT ENOEXEC ENOKEY ENOLCK ENOLINK ENOMEDIUM ENOMEM ENOMSG ENONET ENOPKG
    ENOPROTOOPT ENOSPC ENOSR ENOSTR ENOSYS ENOTBLK ENOTCONN ENOTDIR ENOTEMPTY ENOTNAM
    ENOTRECOVERABLE ENOTSOCK ENOTSUP ENOTTY ENOTUNIQ ENXIO EOF EOPNOTSUPP EOVERFLOW EOWNERDEAD
    EPERM EPFNOSUPPORT EPIPE EPROTO EPROTONOSUPPORT EPROTOTYPE ERANGE EREMCHG EREMOTE EREMOTEIO
    ERESTART ERFKILL EROFS errno ESHUTDOWN ESOCKTNOSUPPORT ESPIPE ESRCH ESRMNT ESTALE ESTRPIPE
    ETIME ETIMEDOUT ETOOMANYREFS ETXTBSY EUCLEAN EUNATCH EUSERS EWOULDBLOCK EXDEV EXFULL
    EXIT_FAILURE EXIT_SUCCESS FILENAME_MAX hpux HUGE_VAL HUGE_VALF HUGE_VALL I i386 i486 i586
    i686 imaginary INFINITY IOV_MAX L_tmpnam LINE_MAX linux LITTLE_ENDIAN LONG_BIT LONG_LONG_MAX
    LONG_LONG_MIN math_errhandling MAX_CANON MAX_INPUT MAXFLOAT MB_CUR_MAX MINSIGSTKSZ mips NAN
    NGROUPS_MAX noreturn NSIG NULL NZERO offsetof ONCE_FLAG_INIT PIPE_BUF powerpc PPC R_OK
    RTSIG_MAX sa_handler sa_sigaction sched_priority SEEK_CUR SEEK_DATA SEEK_END SEEK_HOLE
    SEEK_SET sparc SSIZE_MAX stderr STDERR_FILENO stdin STDIN_FILENO stdout STDOUT_FILENO sun
    TIME_UTC TMP_MAX ULONG_LONG_MAX unix unreachable vax W_OK WCONTINUED WEOF WEXITED WIN32
    WIN64 WINNT WNOHANG WNOWAIT WORD_BIT WSTOPPED WUNTRACED X_OK
""")
"""Macros without arguments of the headers of C and POSIX, and those that compilers define."""

MACRO_FAMILIES = re.compile(
    r"""
    U?INT(_LEAST|_FAST|MAX|PTR)?(8|16|32|64)?_(MAX|MIN|WIDTH)
    | (CHAR|SCHAR|UCHAR|SHRT|USHRT|LONG|ULONG|LLONG|ULLONG|BOOL)_(MAX|MIN|WIDTH)
    | (SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC|RAND|MB_LEN|PATH|NAME|FOPEN)_(MAX|MIN|WIDTH)
    | (PRI|SCN)[dioxXu](LEAST|FAST|MAX|PTR)?(8|16|32|64)?
    | (FLT|DBL|LDBL|DEC)(32|64|128)?X?_[A-Z0-9_]+
    | ATOMIC_[A-Z0-9_]+_LOCK_FREE | ATOMIC_FLAG_INIT | ATOMIC_VAR_INIT
    | FE_[A-Z_]+ | FP_[A-Z0-9_]+ | LC_[A-Z_]+
    | SIG_[A-Z]+
    | SIG(ABRT|ALRM|BUS|CHLD|CLD|CONT|FPE|HUP|ILL|INT|IO|IOT|KILL|PIPE|POLL|PROF|PWR|QUIT|SEGV)
    | SIG(STKFLT|STKSZ|STOP|SYS|TERM|TRAP|TSTP|TTIN|TTOU|URG|USR[12]|VTALRM|WINCH|XCPU|XFSZ)
    | SIGRT(MAX|MIN)
    | M_(E|LOG2E|LOG10E|LN2|LN10|PI|PI_[24]|[12]_PI|2_SQRTPI|SQRT2|SQRT1_2)(f|l|f\d+x?)?
    """,
    re.VERBOSE,
)
"""Macros whose names follow a pattern."""

TYPES = frozenset(
    f"{sign}int{kind}{bits}_t"
    for sign in ("", "u")
    for kind in ("", "_least", "_fast")
    for bits in (8, 16, 32, 64)
) | _words("size_t ptrdiff_t intptr_t uintptr_t intmax_t uintmax_t max_align_t")
"""Types that a header uses, or that come with those."""

MATHS = _words("""
    acos acosh asin asinh atan atan2 atanh cabs cacos cacosh carg casin casinh catan catanh cbrt
    ccos ccosh ceil cexp cimag clog conj copysign cos cosh cpow cproj creal csin csinh csqrt
    ctan ctanh erf erfc exp exp2 expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb
    ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint
    nextafter nexttoward pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan tanh
    tgamma trunc
""")
"""Functions of C that also exist with the suffixes ``f`` and ``l``."""

FUNCTIONS = _words("""
    a64l abort abs accept access alarm aligned_alloc alloca asctime asctime_r assert
    at_quick_exit atexit atof atoi atol atoll basename bcmp bcopy bind brk bsearch btowc bzero
    c16rtomb c32rtomb call_once calloc cfree chdir chmod chown clearerr clock close confstr
    connect creat ctermid ctime ctime_r daylight difftime dirname div dlclose dlerror dlopen
    dlsym dprintf drand48 drem dup dup2 duplocale environ erand48 execl execle execlp execv
    execve execvp exit exp10 exp10f faccessat fchdir fchmod fchmodat fchown fchownat fclose
    fcntl fdatasync fdopen feclearexcept fegetenv fegetexceptflag fegetround feholdexcept feof
    feraiseexcept ferror fesetenv fesetexceptflag fesetround fetestexcept feupdateenv fexecve
    fflush ffs ffsl ffsll fgetc fgetpos fgets fgetwc fgetws fileno flockfile fmemopen fopen fork
    fpathconf fpclassify fprintf fputc fputs fputwc fputws fread free freelocale freopen fscanf
    fseek fseeko fsetpos fstat fstatat fsync ftell ftello ftruncate ftrylockfile funlockfile
    futimens fwide fwprintf fwrite fwscanf gamma getc getc_unlocked getchar getchar_unlocked
    getcwd getdate getdelim getegid getenv geteuid getgid getgroups gethostid gethostname
    getline getlogin getlogin_r getopt getpeername getpgid getpgrp getpid getppid getsid
    getsockname getsockopt getsubopt getuid getwc getwchar gmtime gmtime_r grantpt hcreate
    hdestroy hsearch imaxabs imaxdiv index initstate insque ioctl isalnum isalpha isascii isatty
    isblank iscntrl isdigit isfinite isgraph isgreater isgreaterequal isinf isless islessequal
    islessgreater islower isnan isnormal isprint ispunct isspace isunordered isupper iswalnum
    iswalpha iswblank iswcntrl iswctype iswdigit iswgraph iswlower iswprint iswpunct iswspace
    iswupper iswxdigit isxdigit j0 j1 jn jrand48 kill killpg l64a labs lchown lcong48 ldiv lfind
    link linkat listen llabs lldiv localeconv localtime localtime_r lockf longjmp lrand48
    lsearch lseek lstat main malloc mblen mbrlen mbrtoc16 mbrtoc32 mbrtowc mbsinit mbsnrtowcs
    mbsrtowcs mbstowcs mbtowc memalign memccpy memchr memcmp memcpy memmove memory memset mkdir
    mkdirat mkdtemp mkfifo mkfifoat mknod mknodat mkstemp mktime mmap mprotect mrand48 munmap
    nanosleep newlocale nice nrand48 offsetof open open_memstream open_wmemstream openat optarg
    opterr optind pathconf pause pclose perror pipe poll popen posix_fadvise posix_fallocate
    posix_memalign posix_openpt pow10 pread printf psiginfo psignal ptsname putc putc_unlocked
    putchar putchar_unlocked putenv puts putwc putwchar pwrite qsort quick_exit raise rand
    rand_r random read readlink readlinkat realloc realpath recv recvfrom recvmsg remove remque
    rename renameat rewind rindex rmdir sbrk scalb scanf seed48 select send sendmsg sendto
    setbuf setegid setenv seteuid setgid setjmp setlocale setpgid setpgrp setregid setreuid
    setsid setsockopt setstate setuid setvbuf shutdown sigaction sigaddset sigaltstack sigdelset
    sigemptyset sigfillset sighold sigignore siginterrupt sigismember siglongjmp signal signbit
    signgam significand sigpause sigpending sigprocmask sigqueue sigrelse sigset sigsuspend
    sigtimedwait sigwait sigwaitinfo sincos sincosf sleep snprintf sockatmark socket socketpair
    sprintf srand srand48 srandom sscanf stat std stpcpy stpncpy strcasecmp strcat strchr strcmp
    strcoll strcpy strcspn strdup strerror strerror_r strftime stricmp strlcat strlcpy strlen
    strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strptime strrchr strsep
    strsignal strspn strstr strtod strtof strtoimax strtok strtok_r strtol strtold strtoll
    strtoul strtoull strtoumax strxfrm swab swprintf swscanf symlink symlinkat sync sysconf
    syslog system tcgetpgrp tcsetpgrp tdelete tempnam tfind time timespec_get timezone tmpfile
    tmpnam toascii tolower toupper towctrans towlower towupper truncate tsearch ttyname
    ttyname_r twalk tzname tzset umask ungetc ungetwc unlink unlinkat unlockpt unsetenv
    uselocale utimensat va_arg va_copy va_end va_start valloc vdprintf vfork vfprintf vfscanf
    vfwprintf vfwscanf vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf vwprintf
    vwscanf wait waitpid wcpcpy wcpncpy wcrtomb wcscasecmp wcscat wcschr wcscmp wcscoll wcscpy
    wcscspn wcsdup wcsftime wcslen wcsncasecmp wcsncat wcsncmp wcsncpy wcsnlen wcsnrtombs
    wcspbrk wcsrchr wcsrtombs wcsspn wcsstr wcstod wcstof wcstoimax wcstok wcstol wcstold
    wcstoll wcstombs wcstoul wcstoull wcstoumax wcswcs wcswidth wcsxfrm wctob wctomb wctrans
    wctype wcwidth wmemchr wmemcmp wmemcpy wmemmove wmemset wprintf write wscanf y0 y1 yn
""")
"""Other functions, objects and function-like macros of C and POSIX, ``main`` and ``std``."""

FUNCTION_FAMILIES = re.compile(
    r"""
    pthread_\w+
    | (clock|timer)_(create|delete|getcpuclockid|getoverrun|getres|gettime|nanosleep|settime)
    | sched_(yield|(get|set)(affinity|attr|param|scheduler)|get_priority_(max|min)|rr_get_interval)
    | (cnd|mtx|thrd|tss)_(broadcast|create|current|delete|destroy|detach|equal|exit|get|init|join
        |lock|set|signal|sleep|timedlock|timedwait|trylock|unlock|wait|yield)
    | atomic_(init|is_lock_free|(signal|thread)_fence|(flag_(clear|test_and_set)|load|store|exchange
        |compare_exchange_(strong|weak)|fetch_(add|and|or|sub|xor))(_explicit)?)
    | (isw?|tow?)(alnum|alpha|ascii|blank|cntrl|ctype|digit|graph|lower|print|punct|space|upper
        |xdigit)_l
    | (str|wcs)n?(casecmp|coll|error|ftime|xfrm)_l | (towc|wc)(trans|type)_l
    | (__|_[A-Z]|_bits_|_sys_)\w*
    """,
    re.VERBOSE,
)
"""Functions whose names follow a pattern, and names that C and C++ keep for compilers."""

LIBRARY_TYPES = _words("""
    FILE blkcnt_t blksize_t clock_t clockid_t cnd_t dev_t div_t errno_t fenv_t fexcept_t fpos_t
    gid_t id_t imaxdiv_t ino_t jmp_buf ldiv_t lldiv_t locale_t mbstate_t mode_t mtx_t nlink_t off_t
    once_flag pid_t sig_atomic_t sigjmp_buf sigset_t ssize_t suseconds_t thrd_start_t thrd_t
    time_t tss_dtor_t tss_t u_char u_int u_long u_short uid_t uint ulong useconds_t ushort va_list
    wctrans_t wctype_t wint_t
""")
"""Types of the headers of C and POSIX."""

HEADERS = _words("""
    assert complex ctype errno fcntl fenv float inttypes iso646 limits locale math memory pthread
    sched setjmp signal stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdint stdio
    stdlib stdnoreturn string strings tgmath threads time uchar unistd wchar wctype features
""")
"""Headers of C and POSIX: ``math.h`` in a folder of the user would hide the one of C."""

DEVICES = frozenset(
    ["aux", "con", "nul", "prn", *(f"{port}{i}" for port in ("com", "lpt") for i in range(1, 10))]
)
"""Names of files that Windows keeps for devices, in capitals too."""
