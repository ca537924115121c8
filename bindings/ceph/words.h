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

class CrushWrapper;

namespace ceph {

using Profile = std::map<std::string, std::string>;
using Buffers = std::map<int, bufferlist>;
using Runs = std::vector<std::pair<int, int>>;  // (first sub-chunk, how many)

// What a code is: the first virtual functions of the interface, alike in all releases.
class ErasureCodeShape {
  public:
    virtual ~ErasureCodeShape() = default;
    virtual int init(Profile &profile, std::ostream *log) = 0;
    virtual const Profile &get_profile() const = 0;
    virtual int create_rule(const std::string &name, CrushWrapper &crush,
                            std::ostream *log) const = 0;
    virtual unsigned get_chunk_count() const = 0;
    virtual unsigned get_data_chunk_count() const = 0;
    virtual unsigned get_coding_chunk_count() const = 0;
    virtual int get_sub_chunk_count() = 0;
    virtual unsigned get_chunk_size(unsigned object) const = 0;
};

}  // namespace ceph
