/* The least that a server of small files can cost with plain system calls: one thread, epoll, one recv and
 * one send for each request, and an answer prepared in advance. It looks neither at the path nor at any
 * header: a request is whatever ends in an empty line.
 *
 *   bare PORT DIRECTORY
 *
 * The answer to "GET /NAME" is the file NAME of the directory, read once at the start. The client asks for the names in
 * turn, in the order of their bytes, so that it need not be searched for. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ANSWERS = 512, EVENTS = 128, DESCRIPTORS = 65536 };

struct answer {
    char name[64];
    size_t name_length;
    char *bytes;
    size_t length;
};

static struct answer answers[ANSWERS];
static int answer_count;
/* What is left to send on each descriptor, where the socket's buffer was full. */
static struct { const char *at; size_t left; } rests[DESCRIPTORS];

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int by_bytes(const struct dirent **one, const struct dirent **other)
{
    return strcmp((*one)->d_name, (*other)->d_name);
}

static void prepare(const char *directory)
{
    struct dirent **entries;
    int here = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), count = scandir(directory, &entries, NULL, by_bytes);
    if (here < 0 || count < 0)
        die(directory);
    for (int at = 0; at < count && answer_count < ANSWERS; at++) {
        struct dirent *entry = entries[at];
        struct answer *answer = &answers[answer_count];
        struct stat status;
        char head[256];
        int file = openat(here, entry->d_name, O_RDONLY | O_CLOEXEC);
        if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode)
            || strlen(entry->d_name) >= sizeof answer->name) {
            close(file);
            continue;
        }
        /* As many header fields as `laio serve` sends. */
        int head_length = snprintf(head, sizeof head,
            "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: application/octet-stream\r\n"
            "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"0123456789abcdef\"\r\nContent-Length: %lld\r\n\r\n",
            (long long)status.st_size);
        answer->bytes = malloc(head_length + status.st_size);
        memcpy(answer->bytes, head, head_length);
        if (!answer->bytes || read(file, answer->bytes + head_length, status.st_size) != status.st_size)
            die(entry->d_name);
        answer->length = head_length + status.st_size;
        answer->name_length = strlen(entry->d_name);
        memcpy(answer->name, entry->d_name, answer->name_length);
        answer_count++;
        close(file);
    }
    close(here);
}

static const struct answer *find(const char *request, size_t length)
{
    static int next;
    for (int tried = 0; tried < answer_count; tried++) {
        const struct answer *answer = &answers[next];
        next = (next + 1) % answer_count;
        if (length > 6 + answer->name_length && memcmp(request + 5, answer->name, answer->name_length) == 0
            && request[5 + answer->name_length] == ' ')
            return answer;
    }
    return NULL;
}

static void finish(int socket)
{
    rests[socket].left = 0;
    close(socket);
}

static void send_rest(int socket)
{
    while (rests[socket].left > 0) {
        ssize_t sent = send(socket, rests[socket].at, rests[socket].left, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN)
                finish(socket);
            return;
        }
        rests[socket].at += sent;
        rests[socket].left -= sent;
    }
}

static void answer_request(int socket)
{
    static char request[16384];
    ssize_t length = recv(socket, request, sizeof request, 0);
    if (length <= 0) {
        if (length == 0 || errno != EAGAIN)
            finish(socket);
        return;
    }
    const struct answer *answer = find(request, length);
    if (length < 4 || memcmp(request + length - 4, "\r\n\r\n", 4) != 0 || !answer) {
        finish(socket);
        return;
    }
    rests[socket].at = answer->bytes;
    rests[socket].left = answer->length;
    send_rest(socket);
}

int main(int count, char **arguments)
{
    if (count != 3) {
        fprintf(stderr, "usage: bare PORT DIRECTORY\n");
        return 2;
    }
    prepare(arguments[2]);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 4096) != 0)
        die("listen");
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = listener }, events[EVENTS];
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(set, events, EVENTS, -1);
        for (int at = 0; at < ready; at++) {
            int socket = events[at].data.fd;
            if (socket != listener) {
                if (rests[socket].left > 0)
                    send_rest(socket);
                else
                    answer_request(socket);
                continue;
            }
            while ((socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
                if (socket >= DESCRIPTORS) {
                    close(socket);
                    continue;
                }
                setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                event.events = EPOLLIN | EPOLLOUT | EPOLLET;
                event.data.fd = socket;
                epoll_ctl(set, EPOLL_CTL_ADD, socket, &event);
            }
        }
    }
}
