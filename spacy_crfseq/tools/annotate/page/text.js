// A text under annotation: what the model proposes, what the user says, and what follows from both.  No DOM here.

const LEAST_SHOWN = 0.1;

export const overlap = (a, b) => a[0] < b[1] && b[0] < a[1];
export const same = (a, b) => a[0] === b[0] && a[1] === b[1] && a[2] === b[2];

export class Text {
  constructor(data, task, saved) {
    Object.assign(this, {
      key: data.key, words: data.words, spaces: data.spaces, heldOut: data.held_out, model: data.model,
      first: data.spans, task, history: [], actions: 1, again: data.again, foundBy: data.found_by,
    });
    this.plain = task === "tags" || task === "fields";
    this.pins = saved?.pins ?? data.pins;
    if (saved) [this.history, this.actions] = [saved.history, saved.actions];
    this.moved = [];
    this.take(data);
    this.moved = [];
    this.focus = this.items()[0] ?? [0, Math.min(1, this.words.length), null];
    const doubtful = this.doubtful();
    if (doubtful) this.focus = doubtful;
  }

  // Take in a decoding; spans that were not there before have moved.
  take({ spans, offers, model }) {
    const hidden = new Set([...this.pins.unknown, ...this.pins.outside, ...this.pins.choices.map(([token]) => token)]);
    const shown = spans.filter((span) => {
      for (let t = span[0]; t < span[1]; t++) if (hidden.has(t)) return false;
      return !this.pins.wrong.some((one) => same(one, span));
    });
    const before = this.spans ?? [];
    this.spans = this.pins.spans.map(([s, e, l]) => [s, e, l, 1, true]);
    for (const span of shown) {
      if (!this.spans.some((pin) => pin[4] && overlap(pin, span))) this.spans.push([...span.slice(0, 4), false]);
    }
    this.spans.sort((a, b) => a[0] - b[0]);
    this.moved = this.spans.filter((span) => !span[4] && !before.some((old) => same(old, span)));
    this.offers = offers.slice().sort((a, b) => b[3] - a[3]);
    this.model = model;
  }

  spanAt(token) { return this.spans.find(([s, e]) => s <= token && token < e); }

  // Offered spans to be seen in the text: likely enough, and where no span is.
  ghosts() {
    const found = [];
    if (this.plain) return found;
    const outside = new Set([...this.pins.outside, ...this.pins.unknown]);
    for (const offer of this.offers) {
      if (offer[3] < LEAST_SHOWN) break;
      let free = ![...this.spans, ...found].some((other) => overlap(other, offer));
      for (let t = offer[0]; t < offer[1]; t++) free &&= !outside.has(t);
      if (free) found.push(offer);
    }
    return found;
  }

  items() { return [...this.spans, ...this.ghosts()].sort((a, b) => a[0] - b[0]); }

  // The item that most likely needs a correction, after the one in focus in this order.
  doubtful(after = null) {
    const doubt = (item) => (this.spans.includes(item) ? (item[4] ? 0 : 1 - item[3]) : item[3]);
    const sorted = this.items().filter((item) => doubt(item) > 0.02).sort((a, b) => doubt(b) - doubt(a));
    const at = after ? sorted.findIndex((item) => item[0] === after[0] && item[1] === after[1]) : -1;
    return sorted[(at + 1) % sorted.length];
  }

  // The names of the sources that have found a span, in brackets.
  sources(span) {
    const found = this.foundBy.find((one) => same(one, span));
    return found ? ` (${found[3]})` : "";
  }

  focused() { return this.spans.find((span) => span[0] === this.focus[0] && span[1] === this.focus[1]); }

  // What else may be where the focus is, the most likely first.
  alternatives() {
    const focus = this.focus;
    return this.offers.filter((offer) => overlap(offer, focus)).slice(0, 5);
  }

  // Changes by the user.  Each can be undone, and counts as so many actions.

  change(actions, work) {
    this.history.push(JSON.stringify([this.pins, this.actions, this.focus]));
    work();
    this.pins.spans.sort((a, b) => a[0] - b[0]);
    this.actions += actions;
    this.take({ spans: this.spans.filter((span) => !span[4] && this.kept(span)), offers: this.offers, model: this.model });
  }

  kept(span) {
    const { outside } = this.pins;
    return !outside.some((token) => span[0] <= token && token < span[1]);
  }

  undo() {
    const before = this.history.pop();
    if (!before) return false;
    [this.pins, this.actions, this.focus] = JSON.parse(before);
    return true;
  }

  clear(start, end) {
    const pins = this.pins, out = (token) => token < start || token >= end;
    pins.spans = pins.spans.filter((span) => !overlap(span, [start, end]));
    pins.outside = pins.outside.filter(out);
    pins.unknown = pins.unknown.filter(out);
    pins.choices = pins.choices.filter(([token]) => out(token));
    pins.wrong = pins.wrong.filter((span) => !overlap(span, [start, end]));
  }

  label(start, end, label) {
    const there = this.spans.find((span) => span[0] === start && span[1] === end);
    if (there && there[4] && there[2] === label) return false;
    const offered = this.offers.some((offer) => same(offer, [start, end, label]));
    const cheap = this.plain || there || offered;
    this.change(there && there[2] === label ? 0 : cheap ? 1 : 2, () => {
      this.clear(start, end);
      this.pins.spans.push([start, end, label]);
      this.focus = [start, end, label];
    });
    return true;
  }

  resize(start, end) {
    const span = this.focused();
    if (!span || start < 0 || end > this.words.length || start >= end) return false;
    this.change(1, () => {
      this.clear(span[0], span[1]);
      this.clear(start, end);
      this.spans = this.spans.filter((one) => one !== span);
      this.pins.spans.push([start, end, span[2]]);
      this.focus = [start, end, span[2]];
    });
    return true;
  }

  remove() {
    const [start, end] = this.focus;
    const hit = this.spans.filter((span) => overlap(span, this.focus));
    const from = Math.min(start, ...hit.map((span) => span[0])), to = Math.max(end, ...hit.map((span) => span[1]));
    if (this.plain && !hit.some((span) => span[4])) return false;
    this.change(Math.max(hit.length, 1), () => {
      this.clear(from, to);
      if (!this.plain) for (let token = from; token < to; token++) this.pins.outside.push(token);
    });
    return true;
  }

  unknown() {
    const [start, end] = this.focus, was = new Set(this.pins.unknown);
    let all = true;
    for (let token = start; token < end; token++) all &&= was.has(token);
    this.change(1, () => {
      this.clear(start, end);
      if (!all) for (let token = start; token < end; token++) this.pins.unknown.push(token);
    });
    return true;
  }

  // The span in focus is not there, whatever is.
  wrong() {
    const span = this.focused();
    if (!span) return false;
    this.change(1, () => {
      this.clear(span[0], span[1]);
      this.pins.wrong.push(span.slice(0, 3));
    });
    return true;
  }

  // Each token of the focus has one of several labels.
  choose(label) {
    const [start, end] = this.focus;
    const before = new Map(this.pins.choices);
    this.change(1, () => {
      this.clear(start, end);
      for (let token = start; token < end; token++) {
        const labels = new Set(before.get(token) ?? []);
        if (!labels.delete(label)) labels.add(label);
        if (labels.size) this.pins.choices.push([token, [...labels]]);
      }
    });
    return true;
  }

  // The annotation as it is sent when the text is accepted.
  accepted() {
    const spans = this.spans.map((span) => span.slice(0, 3));
    return { pins: { ...this.pins, spans }, by_user: this.pins.spans, predicted: this.heldOut ? [] : this.first };
  }

  saved() { return { key: this.key, heldOut: this.heldOut, pins: this.pins, history: this.history, actions: this.actions }; }
}
