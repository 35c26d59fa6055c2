/* csv_kernel.h - where the fields of 64 bytes at a time end: included by csv_index.c once for each instruction set,
 * with KERNEL(name) and TARGET defined, KERNEL(masks), KERNEL(between) and KERNEL(take) made.
 *
 * `between` is the carry-less product of the quotes' bits with all ones: the text inside of quotes, if each opening
 * quote stands where one may. Where one does not, the automaton itself goes over these 64 bytes. */

TARGET static void KERNEL(index)(const csv_dialect *d, const uint8_t *data, int64_t n, csv_state *state, csv_ends *out)
{
    uint64_t carry = *state == CSV_QUOTED ? ~(uint64_t)0 : 0;
    uint64_t opens =
        *state != CSV_UNQUOTED && *state != CSV_QUOTED; /* a quote that comes first would open, or open again */
    bool closed = *state == CSV_CLOSED;

    for (int64_t at = 0; at < n; at += 64) {
        csv_masks m = KERNEL(masks)(d, data + at);
        uint64_t live = n - at < 64 ? ((uint64_t)1 << (n - at)) - 1 : ~(uint64_t)0, inside, ends, closing;

        m.returns &= live; /* what lies behind the data is anything */
        if (m.returns) {   /* one before "\n" is nothing: the line ends there */
            if (out)
                out->returns = true;
            m.returns &= ~(m.newlines >> 1 | (uint64_t)(m.returns >> 63 && data[at + 64] == '\n') << 63);
            m.newlines |= m.returns;
        }
        m.newlines &= live;
        m.quotes &= live;
        inside = carry ^ KERNEL(between)(m.quotes); /* whether there are quotes is too hard a guess for a branch */
        ends = ((m.delimiters & live) | m.newlines) & ~inside;
        closing = m.quotes & ~inside;
        if (__builtin_expect((m.quotes & inside & ~((ends | closing) << 1 | opens)) != 0, 0)) {
            csv_state s = carry ? CSV_QUOTED : closed ? CSV_CLOSED : opens ? CSV_BEGIN : CSV_UNQUOTED;

            ends = hr__csv_walk(d, data + at, HR_MIN(n - at, 64), &s, &m.newlines);
            carry = s == CSV_QUOTED ? ~(uint64_t)0 : 0;
            opens = s != CSV_QUOTED && s != CSV_UNQUOTED;
            closed = s == CSV_CLOSED;
            if (out)
                KERNEL(take)(out, out->base + (uint32_t)at, ends, m.newlines);
            continue;
        }
        if (out)
            KERNEL(take)(out, out->base + (uint32_t)at, ends, m.newlines & ends);
        if (n - at < 64) { /* the bits behind the last byte are those of none */
            int last = (int)(n - at) - 1;

            carry = inside >> last & 1 ? ~(uint64_t)0 : 0;
            closed = closing >> last & 1;
            opens = (ends >> last & 1) | closed;
        } else {
            carry = (uint64_t)((int64_t)inside >> 63);
            closed = closing >> 63;
            opens = ends >> 63 | closed;
        }
    }
    *state = carry ? CSV_QUOTED : closed ? CSV_CLOSED : opens ? CSV_BEGIN : CSV_UNQUOTED;
}
