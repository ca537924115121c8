// CPU seconds of the plugins, called as an OSD calls them.
#include "driver.h"

#include <algorithm>
#include <ctime>
#include <functional>

namespace {

// One profile under the bench: its objects, and what each round took.
struct Contender {
    Code code;
    std::vector<bufferlist> objects;
    std::vector<Buffers> chunks;
    std::vector<double> encode, repair;
};

void print_quartiles(const char *name, std::vector<double> all) {
    std::sort(all.begin(), all.end());
    const size_t n = all.size();
    printf("\"%s\": [%.5f, %.5f, %.5f]", name, all[n / 4], all[n / 2], all[3 * n / 4]);
}

}  // namespace

// CPU seconds for a GiB of object encoded, and of chunk recovered, a line of JSON for each profile:
// first quarter, median, third quarter of rounds that take the profiles in turn, so that whatever
// else the machine does meets all of them.
int bench(unsigned unit, char **profiles, int count_profiles) {
    std::vector<Contender> all(static_cast<size_t>(count_profiles));
    for (int p = 0; p < count_profiles; p++) {
        Contender &own = all[size_t(p)];
        own.code = loaded(profiles[p]);
        // Many objects, so that none is in the caches when its turn comes.
        const unsigned len = unit * own.code->get_data_chunk_count();
        const unsigned count = std::max(4u, (96u << 20) / len);
        for (unsigned i = 0; i < count; i++) {
            own.objects.push_back(object(len, i));
            own.objects.back().rebuild();
        }
        own.chunks.resize(count);
        if (encoded(own.code, own.objects[0]).at(0).length() != unit) return 3;
    }
    const auto seconds = [](const std::function<void()> &work) {
        const clock_t start = clock();
        work();
        return double(clock() - start) / CLOCKS_PER_SEC;
    };
    // Slow profiles get fewer rounds.
    const clock_t begin = clock();
    const auto enough = [&](int round) {
        return round > 4 && clock() - begin > 12 * CLOCKS_PER_SEC;
    };
    for (int round = 0; round < 12 && !enough(round); round++)
        for (Contender &own : all) {
            const auto every = all_but(own.code, {});
            const size_t count = own.objects.size(), k = own.code->get_data_chunk_count();
            const double encode = seconds([&] {
                for (size_t i = 0; i < count; i++) {
                    own.chunks[i].clear();
                    own.code->encode(every, own.objects[i], &own.chunks[i]);
                }
            });
            const double repair = seconds([&] {
                for (size_t i = 0; i < count; i++) recover(own.code, own.chunks[i], {int(i % k)});
            });
            // The first round warms up.
            if (round == 0) continue;
            const double gib = double(unit) * double(count) / (1 << 30);
            own.encode.push_back(encode / gib / double(k));
            own.repair.push_back(repair / gib);
        }
    for (const Contender &own : all) {
        printf("{");
        print_quartiles("encode_cpu_s_per_gib", own.encode);
        printf(", ");
        print_quartiles("repair_cpu_s_per_gib", own.repair);
        printf("}\n");
    }
    return 0;
}
