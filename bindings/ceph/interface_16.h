// What a plugin of Ceph 16.2 and its host agree on beside the calls: placement rules with a mask.
#pragma once

#include "words.h"

// Placement rules belong to Ceph; a plugin asks for one of the ordinary kind, which then serves up
// to 20 chunks. That a rule serves more is set in its mask, by code that Ceph has in headers and so
// in every plugin; this is what that code sees of the map.
struct CrushRule {
    uint32_t len;
    uint8_t ruleset, type, min_size, max_size;
};
struct CrushMap {
    void *buckets;
    CrushRule **rules;
    int32_t max_buckets;
    uint32_t max_rules;
};
#define CEPH_RULE_MASKS

// The class has no virtual functions, and a plugin only ever holds a reference to it.
class CrushWrapper {
  public:
    int add_simple_rule(std::string name, std::string root, std::string failure_domain,
                        std::string device_class, std::string mode, int rule_type,
                        std::ostream *log);

    // Lets a rule serve pools of so many chunks; false when the map is not as expected.
    bool serve(int rule, unsigned chunks) {
        if (crush == nullptr || rule < 0 || uint32_t(rule) >= crush->max_rules) return false;
        CrushRule *own = crush->rules[rule];
        if (own == nullptr || own->ruleset != rule || own->min_size > own->max_size) return false;
        own->max_size = uint8_t(chunks);
        return true;
    }

    // For hosts other than Ceph, which have no maps of names.
    std::map<int, std::string> names[8];
    CrushMap *crush = nullptr;
};
static_assert(sizeof(std::map<int, std::string>[8]) == 0x180, "where Ceph's plugins find crush");

#include "calls.h"
