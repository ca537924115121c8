// What a plugin of Ceph 18.2 and its host agree on beside the calls of 16.2: any rule serves pools
// of any size, so a plugin only asks for one.
#pragma once

#include "words.h"

// The class has no virtual functions, and a plugin only ever holds a reference to it.
class CrushWrapper {
  public:
    int add_simple_rule(std::string name, std::string root, std::string failure_domain,
                        std::string device_class, std::string mode, int rule_type,
                        std::ostream *log);
    bool serve(int, unsigned) { return true; }
};

#include "calls.h"
