'use strict';
// The addon: of this directory if it was built here, otherwise the package of the platform.

const LIBRARIES = ['gnu', 'musl'];

function load() {
  const packages = LIBRARIES.map((library) => `laio-${process.platform}-${process.arch}-${library}`);
  const errors = [];
  for (const name of ['../laio.node', ...packages]) {
    try {
      return require(name);
    } catch (error) {
      errors.push(error);
    }
  }
  const text = `laio has no addon that this process can load: ${errors.map(({ message }) => message).join('; ')}`;
  throw new AggregateError(errors, text);
}

module.exports = load();
