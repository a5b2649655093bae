'use strict';
// The class of open files: the methods of Node's `FileHandle`, and `tryRead`.

const { EventEmitter } = require('node:events');
const fs = require('node:fs');
const readline = require('node:readline');
const { engine, isDone, paced, settle } = require('./engine.js');
const { isWhole, isId, modeOf, optionsOf, timeOf } = require('./arguments.js');
const { closed, coded, failure, refuse } = require('./errors.js');
const { makeStats } = require('./stats.js');
const whole = require('./whole.js');

const EAGAIN = -11;
const EINVAL = -22;
// Releases before this one take what is no position for the place where the file stands.
const CHECKS_POSITION = Number(process.versions.node.split('.')[0]) >= 22;
// The length of a read without a buffer, in bytes.
const READ_LENGTH = 16 * 1024;
// The kernel reads and writes at most so many buffers in a call.
const MOST_BUFFERS = 1024;

// Closes the files that a program has lost.
const lost = new FinalizationRegistry((fd) => engine.close(fd));

// An object without a prototype, as Node's, takes V8 many times as long as one of a class.
function ReadResult(bytesRead, buffer) {
  this.bytesRead = bytesRead;
  this.buffer = buffer;
}
ReadResult.prototype = Object.create(null);

class FileHandle extends EventEmitter {
  #fd;
  // Calls and streams that use the file, and the handle itself until it is closed.
  #uses = 1;
  #closing;
  #locked = false;

  constructor({ fd }) {
    super();
    this.#fd = fd;
    lost.register(this, fd, this);
  }

  get fd() {
    return this.#fd;
  }

  async read(buffer, offset, length, position) {
    this.#check('read');
    const plan = planRead(buffer, offset, length, position);
    if (plan === undefined) return refuse('read', [buffer, offset, length, position]);
    const answer = plan.target.byteLength === 0 ? 0 : engine.read(this.#fd, plan.target, plan.position);
    const bytesRead = isDone(answer) ? answer : await this.#finishRead(answer, plan.target);
    return paced(new ReadResult(bytesRead, plan.buffer));
  }

  /** As `read`, but without a promise: `undefined` if it would block. It may read fewer bytes. */
  tryRead(buffer, offset, length, position) {
    this.#check('read');
    const plan = planRead(buffer, offset, length, position);
    if (plan === undefined) {
      throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', 'tryRead takes the arguments of read');
    }
    const bytesRead = plan.target.byteLength === 0 ? 0 : engine.tryRead(this.#fd, plan.target, plan.position);
    if (bytesRead === EAGAIN) return undefined;
    if (bytesRead < 0) throw failure(bytesRead, 'read');
    return new ReadResult(bytesRead, plan.buffer);
  }

  async readv(buffers, position) {
    this.#check('readv');
    if (!Array.isArray(buffers) || !buffers.every(ArrayBuffer.isView))
      return refuse('readv', [buffers, position]);
    if (buffers.length === 0) throw failure(EINVAL, 'read');
    const targets = buffers.slice(0, MOST_BUFFERS).map(bytesOf);
    const joined = Buffer.allocUnsafe(targets.reduce((sum, target) => sum + target.length, 0));
    const answer = engine.read(this.#fd, joined, typeof position === 'number' ? position : -1);
    const bytesRead = isDone(answer) ? answer : await this.#finishRead(answer, joined);
    let at = 0;
    for (const target of targets) {
      target.set(joined.subarray(at, Math.min(at + target.length, bytesRead)));
      at = Math.min(at + target.length, bytesRead);
    }
    return { __proto__: null, bytesRead, buffers };
  }

  async write(buffer, ...args) {
    this.#check('write');
    if (buffer?.byteLength === 0) return { __proto__: null, bytesWritten: 0, buffer };
    const planned = planWrite(buffer, args);
    if (planned === undefined) return refuse('write', [buffer, ...args]);
    const bytesWritten = await this.#do('write', 'write', planned.bytes, planned.position);
    return { __proto__: null, bytesWritten, buffer };
  }

  async writev(buffers, position) {
    this.#check('writev');
    if (!Array.isArray(buffers) || !buffers.every(ArrayBuffer.isView))
      return refuse('writev', [buffers, position]);
    if (buffers.length === 0) return { __proto__: null, bytesWritten: 0, buffers };
    const joined = Buffer.concat(buffers.map(bytesOf));
    const bytesWritten = await this.#do(
      'write',
      'write',
      joined,
      typeof position === 'number' ? position : -1,
    );
    return { __proto__: null, bytesWritten, buffers };
  }

  async stat(options = { bigint: false }) {
    this.#check('fstat');
    const isBigint = options.bigint;
    const answer = engine.statFile(this.#fd);
    return paced(makeStats(isDone(answer) ? answer : await this.#wait(answer, 'fstat'), isBigint));
  }

  async readFile(options) {
    this.#check('readFile');
    const plain = optionsOf(options);
    if (plain === undefined || plain.encoding === 'buffer') return refuse('readFile', [options]);
    return this.#use(() => whole.read(this, plain));
  }

  async writeFile(data, options) {
    this.#check('writeFile');
    const plain = optionsOf(options);
    const bytes = plain && whole.dataOf(data, plain);
    if (bytes === undefined) return refuse('writeFile', [data, options]);
    return this.#use(() => whole.write(this, bytes, plain));
  }

  appendFile(data, options) {
    return this.writeFile(data, options);
  }

  async truncate(length = 0) {
    this.#check('ftruncate');
    if (!Number.isSafeInteger(length)) return refuse('truncate', [length]);
    await this.#do('truncate', 'ftruncate', Math.max(0, length));
  }

  async sync() {
    this.#check('fsync');
    await this.#do('sync', 'fsync');
  }

  async datasync() {
    this.#check('fdatasync');
    await this.#do('datasync', 'fdatasync');
  }

  async chmod(mode) {
    this.#check('fchmod');
    const number = modeOf(mode);
    if (number === undefined) return refuse('chmod', [mode]);
    await this.#do('chmodFile', 'fchmod', number);
  }

  async chown(user, group) {
    this.#check('fchown');
    if (!isId(user) || !isId(group)) return refuse('chown', [user, group]);
    await this.#do('chownFile', 'fchown', user, group);
  }

  async utimes(accessed, modified) {
    this.#check('futimes');
    const times = [timeOf(accessed), timeOf(modified)];
    if (times.includes(undefined)) return refuse('utimes', [accessed, modified]);
    await this.#do('utimesFile', 'futime', ...times);
  }

  // A property, as in Node, so that it can be passed on without its object.
  close = () => {
    if (this.#closing) return this.#closing;
    if (this.#fd === -1) return Promise.resolve();
    const ended = new Promise((resolve, reject) => {
      this.#ended = { resolve, reject };
    });
    this.#closing = ended.finally(() => {
      this.#closing = undefined;
    });
    this.#release();
    this.emit('close');
    return this.#closing;
  };
  #ended;

  createReadStream(options = undefined) {
    const { operations, attach } = this.#streamed({
      read: (fd, buffer, offset, length, position, done) => {
        this.read(buffer, offset, length, position).then(
          ({ bytesRead }) => done(null, bytesRead, buffer),
          done,
        );
      },
    });
    return attach(fs.createReadStream('', { ...options, fd: this.#fd, fs: operations }));
  }

  createWriteStream(options = undefined) {
    const { operations, attach } = this.#streamed({
      write: (fd, buffer, offset, length, position, done) => {
        const write = this.write(buffer, offset, length, position);
        write.then(({ bytesWritten }) => done(null, bytesWritten, buffer), done);
      },
      writev: (fd, buffers, position, done) => {
        this.writev(buffers, position).then(({ bytesWritten }) => done(null, bytesWritten, buffers), done);
      },
      fsync: (fd, done) => this.sync().then(() => done(), done),
    });
    return attach(fs.createWriteStream('', { ...options, fd: this.#fd, fs: operations }));
  }

  readLines(options = undefined) {
    return readline.createInterface({ input: this.createReadStream(options), crlfDelay: Infinity });
  }

  /** A stream of bytes, whatever the options, as in newer releases of Node. */
  readableWebStream() {
    const wrong = this.#closing ? 'closing' : this.#fd === -1 ? 'closed' : this.#locked && 'locked';
    if (wrong) throw coded(Error, 'ERR_INVALID_STATE', `Invalid state: The FileHandle is ${wrong}`);
    this.#locked = true;
    this.#uses++;
    let over = false;
    const end = () => {
      if (!over) this.#release();
      over = true;
    };
    let controller;
    const stream = new ReadableStream({
      type: 'bytes',
      autoAllocateChunkSize: READ_LENGTH,
      start: (own) => {
        controller = own;
      },
      pull: async () => {
        const { view } = controller.byobRequest;
        const { bytesRead } = await this.read(view, 0, view.byteLength);
        if (over) return;
        if (bytesRead === 0) {
          end();
          controller.close();
        }
        controller.byobRequest?.respond(bytesRead);
      },
      cancel: end,
    });
    this.once('close', () => {
      if (over) return;
      end();
      controller.close();
      controller.byobRequest?.respond(0);
    });
    return stream;
  }

  #check(syscall) {
    if (this.#fd === -1) throw closed(syscall);
  }

  async #finishRead(answer, target) {
    const bytes = await this.#wait(answer, 'read');
    bytesOf(target).set(bytes);
    return bytes.length;
  }

  #do(method, syscall, ...args) {
    const answer = engine[method](this.#fd, ...args);
    return isDone(answer) ? paced(answer) : this.#wait(answer, syscall);
  }

  #wait(answer, syscall) {
    return this.#use(async () => settle(answer, syscall));
  }

  /** Closing waits until the call is over. */
  async #use(call) {
    this.#uses++;
    try {
      return await call();
    } finally {
      this.#release();
    }
  }

  #release() {
    if (--this.#uses > 0) return;
    const fd = this.#fd;
    this.#fd = -1;
    lost.unregister(this);
    const { resolve, reject } = this.#ended ?? { resolve() {}, reject() {} };
    try {
      Promise.resolve(settle(engine.close(fd), 'close')).then(() => resolve(), reject);
    } catch (error) {
      reject(error);
    }
  }

  /** What Node's streams call to use this file. */
  #streamed(calls) {
    let used = true;
    const close = (fd, done) => {
      if (used) this.#release();
      used = false;
      this.close().then(() => done(), done);
    };
    const attach = (stream) => {
      this.#uses++;
      this.on('close', () => stream.close());
      return stream;
    };
    return { operations: { open() {}, close, ...calls }, attach };
  }
}

if (Symbol.asyncDispose) {
  FileHandle.prototype[Symbol.asyncDispose] = async function () {
    return this.close();
  };
}

const bytesOf = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

/** The buffer of a read, its part to fill, and the position; `undefined` for what Node does not accept. */
function planRead(buffer, offset, length, position) {
  if (offset === 0 && position >= 0 && buffer instanceof Uint8Array && length === buffer.byteLength) {
    const isNumber = Number.isSafeInteger(position);
    if (isNumber && length > 0) return { buffer, target: buffer, position };
  }
  if (!ArrayBuffer.isView(buffer)) {
    if (buffer !== undefined && (typeof buffer !== 'object' || Array.isArray(buffer))) return undefined;
    ({ buffer = Buffer.alloc(READ_LENGTH), offset = 0, length, position = null } = buffer ?? {});
    if (!ArrayBuffer.isView(buffer)) return undefined;
  }
  if (offset !== null && typeof offset === 'object') ({ offset = 0, length, position = null } = offset);
  offset ??= 0;
  length ??= buffer.byteLength - offset;
  if (!isWhole(offset, 0, buffer.byteLength) || !isWhole(length, 0, buffer.byteLength - offset))
    return undefined;
  if (buffer.byteLength === 0 && length !== 0) return undefined;
  const isAll = offset === 0 && length === buffer.byteLength;
  const target = isAll ? buffer : new Uint8Array(buffer.buffer, buffer.byteOffset + offset, length);
  const from = positionOf(position);
  return from === undefined ? undefined : { buffer, target, position: from };
}

/** The position of a read: -1 is where the file stands. */
function positionOf(position) {
  if (position == null) return -1;
  if (typeof position === 'bigint' && CHECKS_POSITION) position = Number(position);
  if (Number.isSafeInteger(position) && (position >= -1 || !CHECKS_POSITION)) return position;
  return CHECKS_POSITION ? undefined : -1;
}

/** The bytes of a write and their position; `undefined` for arguments that Node does not accept. */
function planWrite(buffer, [offset, length, position]) {
  if (typeof buffer === 'string') {
    const encoding = Buffer.isEncoding(length) ? length : 'utf8';
    if (encoding.toLowerCase() === 'hex' && buffer.length % 2 !== 0) return undefined;
    return { bytes: Buffer.from(buffer, encoding), position: typeof offset === 'number' ? offset : -1 };
  }
  if (!ArrayBuffer.isView(buffer)) return undefined;
  if (typeof offset === 'object') ({ offset = 0, length, position = null } = offset ?? {});
  offset ??= 0;
  if (typeof length !== 'number') length = buffer.byteLength - offset;
  if (!isWhole(offset, 0, buffer.byteLength) || !isWhole(length, 0, buffer.byteLength - offset))
    return undefined;
  const bytes = new Uint8Array(buffer.buffer, buffer.byteOffset + offset, length);
  return { bytes, position: Number.isSafeInteger(position) ? position : -1 };
}

module.exports = { FileHandle };
