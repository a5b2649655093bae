'use strict';
// `opendir`: Node's class of open directories, whose calls laio makes.

const fs = require('node:fs');
const { LOWEST_ERROR, engine, isDone, settle } = require('./engine.js');
const { unpack } = require('./directory.js');
const { failure } = require('./errors.js');

const { O_RDONLY, O_DIRECTORY } = fs.constants;

// Closes the directories that a program has lost.
const lost = new FinalizationRegistry((fd) => engine.close(fd));

/** An open directory; `options` are Node's, without `recursive`. */
async function openDirectory(name, options) {
  const { fd } = await settle(engine.open(name, O_RDONLY | O_DIRECTORY, 0), 'opendir', name);
  return new fs.Dir(new DirectoryHandle(fd), name, options);
}

/** What Node's class calls. A call without a request is made on this thread, as the program asks. */
class DirectoryHandle {
  #fd;

  constructor(fd) {
    this.#fd = fd;
    lost.register(this, fd, this);
  }

  // How many entries are read together is decided by the memory for a call, not by the size that Node passes.
  read(encoding, _size, request, context) {
    const taken = (value) => pairs(value, encoding ?? 'utf8');
    if (request !== undefined) return answer(request, 'scandir', engine.readEntries(this.#fd), taken);
    const value = engine.readEntriesHere(this.#fd);
    return isDone(value) ? taken(value) : fail(failure(value, 'scandir'), context);
  }

  close(request, context) {
    const fd = this.#fd;
    lost.unregister(this);
    const value = engine.close(fd);
    if (request !== undefined) return answer(request, 'close', value, () => undefined);
    // What goes on in the background ends later: nothing is lost with a directory.
    return isDone(value) || value < LOWEST_ERROR ? undefined : fail(failure(value, 'close'), context);
  }
}

/** Calls Node back when the call is over, outside of the promise. */
function answer(request, syscall, given, taken) {
  const done = (error, value) => process.nextTick(() => request.oncomplete(error, value));
  if (isDone(given)) return done(null, taken(given));
  const settled = (async () => settle(given, syscall))();
  settled.then((value) => done(null, taken(value)), done);
  return undefined;
}

/** Names and types in turn, as Node's binding returns them; `null` at the end. */
function pairs(value, encoding) {
  const { names, types } = unpack(value, encoding);
  return names.length === 0 ? null : names.flatMap((name, i) => [name, types[i]]);
}

/** Releases before Node 22 take the error from an object, later ones catch it. */
function fail(error, context) {
  if (context === undefined) throw error;
  context.error = error;
  return undefined;
}

module.exports = { openDirectory };
