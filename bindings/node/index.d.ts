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
    mkdtemp,
    open,
    read,
    readFile,
    readdir,
    readlink,
    readv,
    rename,
    rm,
    rmdir,
    stat,
    statfs,
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

/** An event loop that has not turned. */
export interface Stall {
    /** For how many ms at least; it had not yet turned then. */
    lasted: number;
    /** The system call in which its thread was blocked, or what takes its place; empty if it computed. */
    call: string;
    /** The file, the peer or the child of the call. */
    subject: string;
    /** What laio would do with the call. */
    remedy: string;
    /** The stack of JavaScript, in lines as in `Error.stack`; empty if the thread was blocked. */
    stack: string;
    /** How many stalls before this one were not reported: there are at most ten reports in a minute. */
    unreported: number;
}

/** A watch of `detect`. It keeps no process alive. */
export interface Detector {
    /** How often it has looked whether the loop turns. */
    readonly looks: number;
    /** How many stalls it has seen, with those that were not reported. */
    readonly stalls: number;
    /** Ends the watch. */
    stop(): Promise<void>;
}

/**
 * Warns when the event loop of this thread has not turned for `over` ms (100): on the standard error while that
 * lasts, or by calling `callback` when the loop turns again. With `stack: false` it never stops JavaScript that
 * computes to see its stack.
 */
export function detect(
    options?: { over?: number; stack?: boolean },
    callback?: (stall: Stall) => void,
): Detector;
export function detect(callback: (stall: Stall) => void): Detector;

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
