'use strict';
// Warnings about an event loop that does not turn.

const path = require('node:path');
const { isMainThread, Worker } = require('node:worker_threads');
const { threadId } = require('./addon.js');
const { coded } = require('./errors.js');

const DEFAULT_OVER = 100;
const COUNTS = 3;

/**
 * Watches the event loop of this thread from a worker. Writes to the standard error while the loop has not turned
 * for `over` ms; or calls `callback` with the stall as soon as the loop turns again.
 */
function detect(options = {}, callback = undefined) {
  if (typeof options === 'function') return detect({}, options);
  const { over = DEFAULT_OVER, stack = true } = options;
  if (!(over > 0 && over < 2 ** 31)) {
    throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "over" is out of range: ${over}`);
  }
  const counts = new SharedArrayBuffer(COUNTS * Int32Array.BYTES_PER_ELEMENT);
  const [beats, looks, stalls] = [0, 1, 2];
  const shared = new Int32Array(counts);
  const worker = new Worker(path.join(__dirname, 'watching.js'), {
    workerData: {
      counts,
      thread: threadId(),
      over,
      // The inspector of a worker reaches only the main thread.
      withStack: stack && isMainThread,
      toStderr: callback === undefined,
    },
  });
  worker.unref();
  if (callback) {
    worker.on('message', (stall) => callback(stall));
    // A listener keeps the process alive.
    worker.unref();
  }
  const beat = setInterval(() => Atomics.add(shared, beats, 1), Math.max(over / 2, 1));
  beat.unref();
  return {
    get looks() {
      return Atomics.load(shared, looks);
    },
    get stalls() {
      return Atomics.load(shared, stalls);
    },
    async stop() {
      clearInterval(beat);
      await worker.terminate();
    },
  };
}

module.exports = { detect };
