/* fuzz_link.c - any bytes as messages of another process.
 *
 * Input: parts of a uint32 size and bytes. The first is the content of the peer's shared memory, each other one is a
 * packet; packets that bring a segment come with the descriptor of that memory. tests/test_link.c writes such files. */
#include "share/share.h"

#include "require.h"
#include "share/process_link.h"

#include <fcntl.h>

#define SEGMENT_BYTES (1 << 20)
#define MAX_OWN 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int n_message_refs;

static void message_ref_new(void *owner)
{
    (void)owner;
    n_message_refs++;
}

static void message_ref_gone(hr_message_ref *h)
{
    n_message_refs--;
    hr__free(h);
}

/* Stands for memory that was sent before. */
static hr_status own(void *owner, uint64_t segment, int64_t offset, int64_t n, hr_buffer **out, hr_error *err)
{
    (void)owner;
    (void)segment;
    (void)offset;
    if (n > MAX_OWN)
        return hr_error_set(err, HR_BAD_DATA, "never sent");
    HR_TRY(hr__buffer_new(NULL, n, out, err));
    memset((*out)->data, 0, (size_t)n);
    return HR_OK;
}

/* A memfd, and where it is mapped; the same one for all inputs. */
static uint8_t *shared_memory(int *fd)
{
    static uint8_t *p;
    static int memfd = -1;

    if (!p) {
        memfd = hr__memfd("fuzz", SEGMENT_BYTES);
        REQUIRE(memfd >= 0);
        p = hr__map_shared(memfd, SEGMENT_BYTES, true);
        REQUIRE(p);
    }
    *fd = memfd;
    return p;
}

/* Another descriptor of the same memory, as a message brings it. */
static int again(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 0); }

/* Reads everything that passed the check. */
static void read_all(const hr_table *t)
{
    hr_text text = { 0 };
    int64_t n = HR_MIN(t->n_rows, 20);

    for (int i = 0; i < t->schema->n; i++)
        for (int64_t row = 0; row < n; row++) {
            hr__array_print_some(t->columns[i], row, 1000, &text);
            hr__text_clear(&text);
        }
}

static void one_packet(hr_peer *p, const uint8_t *data, int64_t n, int memfd)
{
    hr_error err = HR_ERROR_INIT;
    hr_incoming in;
    hr_packet_head head = { 0 };
    uint64_t *aligned = malloc((size_t)n + 8); /* of the exact size, so that a sanitizer sees a read beyond it */
    int fd = -1;
    hr_status st;

    memcpy(aligned, data, (size_t)n);
    memcpy(&head, data, (size_t)HR_MIN(n, (int64_t)sizeof head));
    if (head.what == HR_PACKET_SEGMENT)
        fd = again(memfd);
    st = hr__peer_packet(p, aligned, n, &fd, &in, &err);
    REQUIRE(st == HR_OK || st == HR_BAD_DATA || st == HR_NO_MEMORY);
    REQUIRE((st == HR_OK) == (err.text[0] == 0));
    if (in.message.table && hr__table_check(in.message.table, false, &err) == HR_OK)
        read_all(in.message.table);
    hr__message_clear(&in.message);
    hr__file_close(fd);
    hr_error_clear(&err);
    free(aligned);
}

/* The next part; false: no more. */
static bool next_part(const uint8_t **data, size_t *size, const uint8_t **part, uint32_t *n)
{
    if (*size < sizeof *n)
        return false;
    memcpy(n, *data, sizeof *n);
    *part = *data + sizeof *n;
    *n = (uint32_t)HR_MIN(*n, *size - sizeof *n);
    *data += sizeof *n + *n;
    *size -= sizeof *n + *n;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint32_t n_memory; /* bytes of it that the last input used */
    int64_t blocks = hr__live_blocks();
    const uint8_t *part;
    hr_peer p;
    uint32_t n;
    int fd;
    uint8_t *memory = shared_memory(&fd);

    hr__peer_init(&p, NULL);
    p.owner = &p;
    p.message_ref_new = message_ref_new;
    p.message_ref_gone = message_ref_gone;
    p.own = own;
    if (next_part(&data, &size, &part, &n)) {
        n = HR_MIN(n, (uint32_t)SEGMENT_BYTES);
        memset(memory, 0, n_memory);
        memcpy(memory, part, n);
        n_memory = n;
        while (next_part(&data, &size, &part, &n))
            one_packet(&p, part, n, fd);
    }
    hr__peer_clear(&p);
    REQUIRE(n_message_refs == 0);
    REQUIRE(hr__live_blocks() == blocks);
    return 0;
}
