// What a plugin of Ceph 16.2 and 18.2 answers, written from the binary interface: the order and
// signatures of virtual functions.
#pragma once

#include "words.h"

namespace ceph {

using Mapping = std::vector<int>;

class ErasureCodeInterface : public ErasureCodeShape {
  public:
    virtual int minimum_to_decode(const std::set<int> &want, const std::set<int> &available,
                                  std::map<int, Runs> *minimum) = 0;
    virtual int minimum_to_decode_with_cost(const std::set<int> &want,
                                            const std::map<int, int> &available,
                                            std::set<int> *minimum) = 0;
    virtual int encode(const std::set<int> &want, const bufferlist &in, Buffers *out) = 0;
    virtual int encode_chunks(const std::set<int> &want, Buffers *chunks) = 0;
    virtual int decode(const std::set<int> &want, const Buffers &in, Buffers *out,
                       int chunk_size) = 0;
    virtual int decode_chunks(const std::set<int> &want, const Buffers &in, Buffers *out) = 0;
    virtual const Mapping &get_chunk_mapping() const = 0;
    virtual int decode_concat(const Buffers &in, bufferlist *out) = 0;
};

// What the plugin answers itself.
class InterfaceAdapter : public ErasureCodeInterface {
  protected:
    // Whether an OSD that wants these chunks could use parts of others for them. A client's read
    // is of all data chunks, so one that wants less recovers, and can.
    bool takes_parts(const std::set<int> &, const std::set<int> &) const { return true; }
};

}  // namespace ceph

#include "registry.h"
