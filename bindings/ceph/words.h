// What the interfaces of all releases are made of.
#pragma once

#include <rados/buffer.h>

#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ceph {

using Profile = std::map<std::string, std::string>;
using Buffers = std::map<int, bufferlist>;
using Runs = std::vector<std::pair<int, int>>;  // (first sub-chunk, how many)

}  // namespace ceph
