/* webhdfs_server.h - a small NameNode and DataNode in one, over files in memory, for tests of hdfs://. */
#ifndef WEBHDFS_SERVER_H
#define WEBHDFS_SERVER_H

#include <stdbool.h>
#include <stdint.h>

extern int webhdfs_port;

void webhdfs_start(void);
void webhdfs_stop(void);  /* the client has closed its connections (hr__http_stop) */
void webhdfs_clear(void); /* no file is left */
void webhdfs_put(const char *path, const char *text);
/* The file's bytes as text; NULL: there is none. Until the next call of a function here. */
const char *webhdfs_get(const char *path);
int64_t webhdfs_bytes(const char *path); /* -1: there is none */
int webhdfs_files(void);
/* The file has the attribute that the hidden one of this name comes in its place. */
void webhdfs_decide(const char *path, const char *hidden);
void webhdfs_say(const char *body); /* to all requests, with 200; NULL: what they ask for. Borrows the text */
/* How often an operation came: CREATE counts where the bytes come. */
int webhdfs_count(const char *op);

#endif
