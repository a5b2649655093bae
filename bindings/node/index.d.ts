import type { BigIntStats, PathLike, Stats } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FileHandle } from './promises';

export * as promises from './promises';
export {
    createReadStream,
    createWriteStream,
    access,
    appendFile,
    chmod,
    chown,
    close,
    copyFile,
    fchmod,
    fchown,
    fdatasync,
    fstat,
    fsync,
    ftruncate,
    futimes,
    lchown,
    link,
    lstat,
    lutimes,
    mkdir,
    open,
    read,
    readFile,
    readdir,
    readlink,
    readv,
    rename,
    rmdir,
    stat,
    symlink,
    truncate,
    unlink,
    utimes,
    write,
    writeFile,
    writev,
} from 'node:fs';

/** The bytes of each range of a file, which are read at the same time; fewer behind its end. */
export function readRanges(
    file: PathLike | FileHandle,
    ranges: Iterable<{ position: number; length: number }>,
): Promise<Buffer[]>;

/** The contents of a file; `undefined` if reading it would block. Throws the error of a call that fails. */
export function tryReadFile(path: PathLike, options?: { encoding?: null } | null): Buffer | undefined;
export function tryReadFile(
    path: PathLike,
    options: BufferEncoding | { encoding: BufferEncoding },
): string | undefined;

/** The status of a file; `undefined` if reading it would block. Throws the error of a call that fails. */
export function tryStat(path: PathLike, options?: { bigint?: false }): Stats | undefined;
export function tryStat(path: PathLike, options: { bigint: true }): BigIntStats | undefined;

/** How the calls of the process were made so far. */
export function stats(): {
    /** Calls that were done by their attempt. */
    inline: number;
    /** Calls whose attempt would have blocked. */
    wouldBlock: number;
    /** Calls that could not be attempted. */
    notAttempted: number;
    /** Calls that another thread or io_uring has made. */
    handedOver: number;
    /** Calls that were cancelled. */
    cancelled: number;
    /** Calls of this thread of JavaScript that are not over. */
    pending: number;
};

/** A handler for `http`, Express and Connect. `next` gets what is not found; without it, the handler answers. */
export interface StaticFiles {
    (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): Promise<void>;
    /** A plugin for Fastify. */
    fastify(instance: { prefix: string; route(route: any): unknown }): Promise<void>;
}

/** Answers requests with the files below a directory, as `laio serve` does. */
export function staticFiles(
    directory: string | URL,
    options?: {
        /** Names of index files: the first that exists is the answer for its directory. */
        index?: string[];
        /** Codings of files that exist beside others, such as `page.html.gz`. */
        precompressed?: ('br' | 'zstd' | 'gzip')[];
        /** Whether names that begin with a dot are found. */
        dotfiles?: boolean;
        /** Where symbolic links may lead. */
        symlinks?: 'within' | 'refuse' | 'follow';
    },
): StaticFiles;
