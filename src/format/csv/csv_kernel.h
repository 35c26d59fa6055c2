/* csv_kernel.h - finds the ends of fields in 64 bytes at a time: csv_index.c includes it once for each instruction set,
 * and first defines TARGET, KERNEL(name), KERNEL(masks), KERNEL(between) and KERNEL(take).
 *
 * `between` is the carry-less product of the quotes' bits with all ones: the text inside quotes, if each opening quote
 * is at the begin of a field. Otherwise the automaton itself walks over these 64 bytes. */

TARGET static void KERNEL(index)(const csv_dialect *d, const uint8_t *data, int64_t n, csv_state *state, csv_ends *out)
{
    uint64_t carry = *state == CSV_QUOTED ? ~(uint64_t)0 : 0;
    uint64_t opens =
        *state != CSV_UNQUOTED && *state != CSV_QUOTED; /* a quote as the first byte would open, or open again */
    bool closed = *state == CSV_CLOSED;

    for (int64_t at = 0; at < n; at += 64) {
        csv_masks m = KERNEL(masks)(d, data + at);
        uint64_t live = n - at < 64 ? ((uint64_t)1 << (n - at)) - 1 : ~(uint64_t)0, inside, ends, closing;

        m.returns &= live; /* bytes after the data are undefined */
        if (m.returns) {   /* one before "\n" belongs to the line's end */
            if (out)
                out->returns = true;
            m.returns &= ~(m.newlines >> 1 | (uint64_t)(m.returns >> 63 && data[at + 64] == '\n') << 63);
            m.newlines |= m.returns;
        }
        m.newlines &= live;
        m.quotes &= live;
        inside = carry ^ KERNEL(between)(m.quotes); /* no branch on "has quotes", which a CPU cannot predict */
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
        if (n - at < 64) { /* clears the bits after the last byte */
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
