/* What runs before main on a Cortex-M of qemu's mps2 boards: the unit for floats is switched on. */
extern unsigned stack_top;
extern void _start(void);
void _init(void) {}
void _fini(void) {}
void reset(void);
void reset(void) {
  *(volatile unsigned *)0xE000ED88 |= 0xFu << 20;
  __asm volatile("dsb\n isb");
  _start();
  for (;;) {}
}
static void fault(void) { __asm volatile("mov r0, #0x18\n ldr r1, =0x20023\n bkpt 0xab"); }
__attribute__((section(".vectors"), used)) static void *const vectors[] = {
    &stack_top, reset, fault, fault, fault, fault, fault};
