// Ceph's buffers and sets of chunks as the plugin uses them. Calls may be for a few KiB, so what
// is done for every call allocates as little as Ceph's types allow.
#pragma once

#include "plans.h"
#include CEPH_INTERFACE

namespace kiln {

using ceph::bufferlist;
using ceph::Buffers;

// A cache line, and a vector.
constexpr unsigned LINE = 64;
// Parity buffers of no more bytes in all are parts of one.
constexpr uint64_t TOGETHER = 64 << 10;

inline int number(int chunk) { return chunk; }
template <class Value> int number(const std::pair<const int, Value> &chunk) { return chunk.first; }

// The chunks of a set or map; false when one of them is none of `n`.
template <class List> bool set_of(const List &chunks, unsigned n, Set &set) {
    for (const auto &chunk : chunks) {
        if (number(chunk) < 0 || number(chunk) >= int(n)) return false;
        set.set(size_t(number(chunk)));
    }
    return true;
}

// Memory for buffers of so many bytes that starts at a line. For small ones it is cut from
// ordinary memory: asking the C library for a multiple of 64 leaves crumbs, which cost more later.
inline ceph::bufferptr lines(unsigned len) {
    if (len > TOGETHER) return ceph::buffer::create_aligned(len, LINE);
    ceph::bufferptr all = ceph::buffer::create_malloc(len + LINE - 1);
    const auto over = unsigned(reinterpret_cast<uintptr_t>(all.c_str()) % LINE);
    return ceph::bufferptr(all, (LINE - over) % LINE, len);
}

inline bufferlist aligned(unsigned len) {
    bufferlist list;
    list.push_back(lines(len));
    return list;
}

inline uint8_t *bytes_of(bufferlist &list) { return reinterpret_cast<uint8_t *>(list.c_str()); }

// Parity buffers. Small ones are parts of one: asking for each would cost as much as computing it.
inline void add_parity(unsigned first, unsigned n, unsigned chunk, Buffers *out) {
    const uint64_t each = (uint64_t(chunk) + LINE - 1) / LINE * LINE;
    const bool small = each * (n - first) <= TOGETHER;
    ceph::bufferptr together;
    if (small) together = lines(unsigned(each) * (n - first));
    for (unsigned i = first; i < n; i++) {
        bufferlist &parity = out->try_emplace(out->end(), int(i))->second;
        parity.clear();
        parity.push_back(small ? ceph::bufferptr(together, unsigned(each) * (i - first), chunk)
                               : lines(chunk));
    }
}

// What the plan wants of what a helper read.
inline bufferlist wanted(const kiln_helper &helper, const Runs &read, const bufferlist &given,
                         uint64_t sub) {
    bufferlist bytes;
    for (const auto &[first, count] : within(runs_of(helper), read)) {
        bufferlist part;
        part.substr_of(given, unsigned(first * sub), unsigned(count * sub));
        bytes.claim_append(part);
    }
    return bytes;
}

}  // namespace kiln
