'use strict';
// Decides whether an event loop turns, and limits the number of reports.

/** How many stalls are reported in so many ms. The next report counts the others. */
const MAX_REPORTS = 10;
const REPORT_INTERVAL = 60_000;

/** A loop beats twice in the time that it may take. */
class Turns {
  #beats = -1;
  #time = 0;
  #isReported = false;

  constructor(over) {
    this.over = over;
    this.period = Math.max(over / 2, 1);
  }

  /** For how many ms the loop has not turned at least: it may have for a period after its last beat. */
  get lasted() {
    return this.#time - this.period;
  }

  /** Takes a look, so many ms after the last one: 'recent', 'late', or once 'stalled'. */
  look(elapsed, beats) {
    if (beats !== this.#beats) {
      this.#beats = beats;
      this.#time = 0;
      this.#isReported = false;
      return 'recent';
    }
    // While this thread had no processor, the loop may not have run either.
    this.#time += Math.min(elapsed, this.period);
    if (this.#isReported || this.lasted < this.period) return 'recent';
    if (this.lasted < this.over) return 'late';
    this.#isReported = true;
    return 'stalled';
  }
}

class Reports {
  #began = -Infinity;
  #reported = 0;
  #unreported = 0;

  /** How many stalls were not reported since the last one that was; `undefined` if this one may not be. */
  admit(now) {
    if (now - this.#began >= REPORT_INTERVAL) {
      this.#began = now;
      this.#reported = 0;
    }
    if (this.#reported === MAX_REPORTS) {
      this.#unreported++;
      return undefined;
    }
    this.#reported++;
    const unreported = this.#unreported;
    this.#unreported = 0;
    return unreported;
  }
}

module.exports = { Turns, Reports, MAX_REPORTS, REPORT_INTERVAL };
