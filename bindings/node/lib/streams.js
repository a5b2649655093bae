'use strict';
// `createReadStream` and `createWriteStream`: Node's streams, whose calls laio makes.

const fs = require('node:fs');
const { open, close, read, write, writev, fsync } = require('./callbacks.js');
const { FileHandle } = require('./file_handle.js');
const { opened } = require('./opened.js');

const streams = (name, calls) => (path, options) => {
  const given = typeof options === 'string' ? { encoding: options } : (options ?? {});
  const { fd } = given;
  if (fd instanceof FileHandle) return fd[name](given);
  const isOwn = given.fs === undefined && (fd == null || opened.has(fd));
  return fs[name](path, isOwn && typeof given === 'object' ? { ...given, fs: calls } : options);
};

const createReadStream = streams('createReadStream', { open, close, read });
const createWriteStream = streams('createWriteStream', { open, close, write, writev, fsync });

module.exports = { createReadStream, createWriteStream };
