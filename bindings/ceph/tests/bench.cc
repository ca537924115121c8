// CPU seconds of a plugin, called as an OSD calls it.
#include "driver.h"

#include <malloc.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>
#include <iostream>

namespace {

// What clients write at once, which is then encoded stripe by stripe.
constexpr unsigned OBJECT = 4 << 20;
// More than caches hold.
constexpr unsigned ALL = 96 << 20;

double now() {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

class Bench {
  public:
    Bench(unsigned unit, const std::string &profile);
    // Everything once, in CPU seconds for a GiB.
    void round();

  private:
    double encode();
    double encode_received();
    double repair(size_t first, int lost);
    double read(size_t first, int lost);

    Code code;
    unsigned unit, len;
    std::set<int> every, data;
    size_t batch;
    std::vector<bufferlist> stripes;
    std::vector<Buffers> chunks;
};

Bench::Bench(unsigned unit, const std::string &profile)
    : code(loaded(profile)), unit(unit), len(unit * code->get_data_chunk_count()),
      every(all_but(code, {})), batch(std::max(1u, OBJECT / len)) {
    for (int i = 0; i < int(code->get_data_chunk_count()); i++) data.insert(i);
    const size_t count = (std::max(4u, ALL / len) + batch - 1) / batch * batch;
    for (size_t i = 0; i < count; i++) {
        stripes.push_back(object(len, unsigned(i)));
        stripes.back().rebuild();
    }
    chunks.resize(count);
}

// Stripes that were not touched for long, so that they come from memory.
double Bench::encode() {
    for (Buffers &old : chunks) old.clear();
    const double start = now();
    for (size_t i = 0; i < stripes.size(); i++) code->encode(every, stripes[i], &chunks[i]);
    return now() - start;
}

// Objects that just came in, as they do from a socket: copied to where they are encoded.
double Bench::encode_received() {
    double spent = 0;
    for (size_t first = 0; first < stripes.size(); first += batch) {
        bufferlist in;
        in.push_back(buffer::create_aligned(unsigned(len * batch), 4096));
        for (size_t i = 0; i < batch; i++)
            memcpy(in.c_str() + i * len, stripes[first + i].c_str(), len);
        std::vector<Buffers> out(batch);
        const double start = now();
        for (size_t i = 0; i < batch; i++) {
            bufferlist stripe;
            stripe.substr_of(in, unsigned(i * len), len);
            code->encode(every, stripe, &out[i]);
        }
        spent += now() - start;
        CHECK(out[0].at(0).length() == unit, "a chunk of %u bytes", out[0].at(0).length());
    }
    return spent;
}

// What an OSD does with the stripes of an object: asks once, reads, decodes every stripe.
double Bench::repair(size_t first, int lost) {
    std::map<int, Runs> minimum;
    double start = now();
    CHECK(code->minimum_to_decode({lost}, all_but(code, {lost}), &minimum) == 0, "minimum");
    double spent = now() - start;
    const unsigned sub = unit / unsigned(code->get_sub_chunk_count());
    std::vector<Buffers> helpers(batch), out(batch);
    for (size_t i = 0; i < batch; i++)
        for (const auto &[helper, runs] : minimum) {
            bufferlist &read = helpers[i][helper];
            for (const auto &[from, count] : runs) {
                bufferlist part;
                part.substr_of(chunks[first + i].at(helper), unsigned(from) * sub,
                               unsigned(count) * sub);
                read.claim_append(part);
            }
            read.rebuild();
        }
    start = now();
    for (size_t i = 0; i < batch; i++) code->decode({lost}, helpers[i], &out[i], int(unit));
    spent += now() - start;
    for (size_t i = 0; i < batch; i++)
        CHECK(out[i].at(lost).contents_equal(chunks[first + i].at(lost)), "wrong chunk");
    return spent;
}

// A client's read of an object that misses a chunk.
double Bench::read(size_t first, int lost) {
    std::map<int, Runs> minimum;
    double start = now();
    CHECK(code->minimum_to_decode(data, all_but(code, {lost}), &minimum) == 0, "minimum");
    double spent = now() - start;
    std::vector<Buffers> helpers(batch);
    std::vector<bufferlist> out(batch);
    for (size_t i = 0; i < batch; i++)
        for (const auto &helper : minimum) {
            bufferlist &read = helpers[i][helper.first] = chunks[first + i].at(helper.first);
            read.rebuild();
        }
    start = now();
    for (size_t i = 0; i < batch; i++) code->decode_concat(helpers[i], &out[i]);
    spent += now() - start;
    for (size_t i = 0; i < batch; i++)
        CHECK(out[i].contents_equal(stripes[first + i]), "another object came back");
    return spent;
}

void Bench::round() {
    const int k = int(code->get_data_chunk_count());
    const double gib = double(len) * double(stripes.size()) / (1 << 30);
    const double memory = encode(), received = encode_received();
    double repaired = 0, served = 0;
    int lost = 0;
    for (size_t first = 0; first < stripes.size(); first += batch, lost = (lost + 1) % k) {
        repaired += repair(first, lost);
        served += read(first, lost);
    }
    printf("{\"encode\": %.5f, \"encode_received\": %.5f, \"repair\": %.5f, \"read\": %.5f}\n",
           memory / gib, received / gib, repaired / gib * k, served / gib);
    fflush(stdout);
}

}  // namespace

// A round, and a line of JSON, for every line that comes in: CPU seconds for a GiB of object
// encoded, of chunk repaired, of object read without one of its chunks. A process has one profile:
// what allocations of one plugin leave behind must not burden another.
int bench(unsigned unit, const std::string &profile) {
    // As in a process that has run for long: what is freed is not given back to the system, and
    // asked for again, at every round.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_TOP_PAD, 64 << 20);
    Bench bench(unit, profile);
    for (std::string line; std::getline(std::cin, line);) bench.round();
    return 0;
}
