'use strict';
// Answers requests with the files below a directory, as `laio serve` does: the addon decides, and JavaScript sends.

const { statSync } = require('node:fs');
const { ServerResponse } = require('node:http');
const { engine, scratch, isDone, settle, bytesOf } = require('./engine.js');
const { pathOf } = require('./arguments.js');
const { coded, failure } = require('./errors.js');

const ENOTDIR = -20;
// A file is read in pieces of this size, in bytes.
const PIECE = 128 * 1024;
// A body up to this size, in bytes, is sent as text: Node then makes one piece of it and the head.
const TEXT_MAX = 12 * 1024;
const NONE = -1;
// Pieces of memory that are kept.
const MOST_SPARES = 16;
// The fields on which a response depends.
const FIELDS = [
  'accept',
  'accept-encoding',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'range',
];

/**
 * A handler for `http`, Express and Connect, whose `fastify` is a plugin for Fastify. `next` gets what is not
 * found. The directory is opened now, and stays the same one if it is renamed.
 */
function staticFiles(directory, options = {}) {
  const { index = ['index.html'], precompressed = [], dotfiles = false, symlinks = 'within' } = options;
  const name = pathOf(directory);
  if (typeof name !== 'string') {
    throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', 'The directory must be a string or a URL');
  }
  if (!statSync(name).isDirectory()) throw failure(ENOTDIR, 'open', name);
  const files = new engine.Files(name, index, precompressed, dotfiles, symlinks);
  const handler = (request, response, next) => answer(files, request.url, request, response, next);
  // Fastify's routes have the prefix of the plugin, which is not a part of the name.
  handler.fastify = async (instance) => {
    const handle = (request, reply) => {
      reply.hijack();
      return answer(files, below(instance.prefix, request.raw.url), request.raw, reply.raw);
    };
    instance.route({ method: ['GET', 'HEAD'], url: '/*', exposeHeadRoute: false, handler: handle });
  };
  return handler;
}

function below(prefix, url) {
  const rest = url.slice(prefix.length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

async function answer(files, url, request, response, next) {
  try {
    const length = placeHead(request, url);
    if (length === undefined) return response.writeHead(431).end();
    const given = files.respond(length);
    const decided = decode(bytesOf(isDone(given) ? given : await settle(given, 'open')));
    if (next && (decided.status === 404 || decided.status === 405)) return next();
    response.writeHead(decided.status, decided.fields);
    if (decided.fd !== NONE) await sendFile(decided, response);
    else if (typeof decided.body === 'string') response.end(decided.body, 'latin1');
    else response.end(decided.body);
  } catch (error) {
    // What was sent cannot be taken back: the client notices that the body is too short.
    if (response.headersSent) response.destroy(error);
    else if (next) next(error);
    else response.writeHead(500).end();
  }
}

/**
 * Writes the head as in HTTP/1.1 to the scratch memory, and returns its length; `undefined` if there is no room. No
 * response depends on the host, but the parser insists on one.
 */
function placeHead({ method, headers }, url) {
  let head = `${method} ${url} HTTP/1.1\r\nHost: localhost\r\n`;
  for (const name of FIELDS) {
    if (headers[name] !== undefined) head += `${name}: ${headers[name]}\r\n`;
  }
  head += '\r\n';
  return head.length <= scratch.length ? scratch.write(head, 'latin1') : undefined;
}

/** An answer, before anything is awaited: the next call uses the scratch memory. */
function decode(bytes) {
  const end = 4 + bytes.readUInt32LE(0);
  const [status, fd, parts, ...fields] = bytes.latin1Slice(4, end).split('\0');
  const isText = fd === '-1' && bytes.length - end <= TEXT_MAX;
  return {
    status: Number(status),
    fields,
    body: isText ? bytes.latin1Slice(end) : Buffer.from(bytes.subarray(end)),
    fd: Number(fd),
    parts: parts.split(','),
  };
}

async function sendFile({ fd, parts, body }, response) {
  try {
    let used = 0;
    for (const [i, part] of parts.entries()) {
      if (response.destroyed) return;
      const isLast = i === parts.length - 1;
      const [begin, end] = part.split('-').map(Number);
      if (end !== undefined) await sendRange(fd, begin, end, response, isLast);
      else await send(response, body.subarray(used, (used += begin)), isLast);
    }
  } finally {
    await settle(engine.close(fd), 'close');
  }
}

async function sendRange(fd, begin, end, response, isLast) {
  for (let position = begin; position < end && !response.destroyed; ) {
    const memory = spares.pop() ?? Buffer.allocUnsafeSlow(PIECE);
    const answer = engine.read(fd, memory.subarray(0, Math.min(PIECE, end - position)), position);
    const bytes = isDone(answer) ? memory.subarray(0, answer) : await settle(answer, 'read');
    if (bytes.length === 0) throw new Error('the file became shorter while it was sent');
    position += bytes.length;
    await send(response, bytes, isLast && position === end, () => keep(memory, response));
  }
}

// Memory that was sent, for the next piece: new memory is zeroed by the kernel, page by page.
const spares = [];
const { write, end } = ServerResponse.prototype;

/** Keeps memory, unless something before the response (a cache, a compressor) may have kept it. */
function keep(memory, response) {
  const isPlain = response.write === write && response.end === end;
  if (isPlain && spares.length < MOST_SPARES) spares.push(memory);
}

/**
 * Sends bytes. Waits until the client has taken enough of them or is gone, unless they are the last ones.
 * `sent` is called when their memory is free again, but perhaps never if the client is gone.
 */
function send(response, bytes, isLast, sent) {
  const written = sent && ((error) => !error && sent());
  if (isLast) {
    response.end(bytes, written);
    return undefined;
  }
  if (response.write(bytes, written) || response.destroyed) return undefined;
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done);
      resolve();
    };
    response.on('drain', done).on('close', done);
  });
}

module.exports = { staticFiles };
