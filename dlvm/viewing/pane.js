// A column of lines of equal height, of which only those in sight are in the document.
const HEIGHT = 18, BEYOND = 20;

class Pane {
  // ``pick`` is called with what is clicked, ``hover`` with what is pointed at, or null.
  constructor(element, pick, hover) {
    this.element = element;
    this.inner = element.appendChild(document.createElement("div"));
    this.map = element.parentNode.appendChild(document.createElement("canvas"));
    this.rows = [];
    this.lit = this.near = () => false;
    element.addEventListener("scroll", () => this.draw());
    element.addEventListener("click", (e) => { const row = this.under(e); if (row) pick(row); });
    element.addEventListener("mousemove", (e) => hover(this.under(e)));
    element.addEventListener("mouseleave", () => hover(null));
  }

  // Rows are { text, group, number, kind } for lines, { fold, text } for folds, or { blank }.
  show(rows) {
    this.rows = rows;
    const longest = rows.reduce((n, r) => Math.max(n, r.text?.length ?? 0), 0);
    this.inner.style.height = `${rows.length * HEIGHT}px`;
    this.inner.style.width = `max(100%, ${longest + 8}ch)`;
    this.draw();
  }

  under(event) {
    const row = event.target.closest?.(".row");
    return row ? this.rows[row.dataset.at] : null;
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / HEIGHT) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / HEIGHT) + BEYOND);
    const made = [];
    for (let i = first; i < last; i++) made.push(this.row(this.rows[i], i));
    this.inner.replaceChildren(...made);
    this.drawMap();
  }

  row(row, at) {
    const element = document.createElement("div"), number = document.createElement("i");
    const marks = [row.kind, row.fold && "fold", row.blank && "blank", row.found && "found"];
    if (this.lit(row)) marks.push("lit");
    if (this.near(row)) marks.push("near");
    if (row.group) marks.push("live");
    element.className = ["row", ...marks.filter(Boolean)].join(" ");
    element.style.top = `${at * HEIGHT}px`;
    element.dataset.at = at;
    number.textContent = row.number ?? "";
    element.append(number, row.text ?? "");
    return element;
  }

  // The strip beside the scroll bar: where lines are lit.
  drawMap() {
    const { clientHeight } = this.element, pen = this.map.getContext("2d");
    this.map.height = clientHeight;
    this.map.width = 6;
    pen.fillStyle = getComputedStyle(this.element).getPropertyValue("--mark");
    const scale = Math.min(HEIGHT, clientHeight / Math.max(1, this.rows.length));
    this.rows.forEach((row, i) => {
      if (this.lit(row)) pen.fillRect(0, i * scale, 6, Math.max(2, scale));
    });
  }

  // Scrolls to the first row that satisfies a condition, unless one is in sight.
  reveal(wanted) {
    const { scrollTop, clientHeight } = this.element;
    const seen = (i) => i * HEIGHT >= scrollTop && (i + 1) * HEIGHT <= scrollTop + clientHeight;
    const found = this.rows.flatMap((row, i) => (wanted(row) ? [i] : []));
    if (found.length && !found.some(seen)) this.center(found[0]);
  }

  center(at) {
    this.element.scrollTop = (at + 0.5) * HEIGHT - this.element.clientHeight / 2;
    this.draw();
  }
}
