// Rules are made inside a real cluster only; here one rule is there, as Ceph would make it.
#pragma once

#include CEPH_INTERFACE

#ifdef CEPH_SHARD_MAPS
int CrushWrapper::add_simple_rule(std::string, std::string, std::string, int, std::string,
                                  std::string, int, std::ostream *) {
    return 1;
}
#else
int CrushWrapper::add_simple_rule(std::string, std::string, std::string, std::string, std::string,
                                  int type, std::ostream *) {
#ifdef CEPH_RULE_MASKS
    static CrushRule rule;
    static CrushRule *rules[] = {nullptr, &rule};
    static CrushMap map{nullptr, rules, 0, 2};
    rule = {3, 1, uint8_t(type), 3, 20};
    crush = &map;
#else
    (void)type;
#endif
    return 1;
}
#endif
