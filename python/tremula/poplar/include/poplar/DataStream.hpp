/* Streams of elements between the host and a program. */
#ifndef TREMULA_POPLAR_DATA_STREAM_HPP_
#define TREMULA_POPLAR_DATA_STREAM_HPP_

#include <cstddef>
#include <cstdint>
#include <string>

#include "Tensor.hpp"
#include "Type.hpp"

namespace poplar {

enum class DataStreamType { HostToDeviceFIFO, DeviceToHostFIFO };
enum class ReplicatedStreamMode { REPLICATE, BROADCAST };

/* Graph makes it. */
class DataStream {
 public:
  DataStream() = default;
  const std::string &handle() const { return handle_; }
  DataStreamType type() const { return type_; }
  Type elementType() const { return elements_.elementType(); }
  std::size_t numElements() const { return elements_.numElements(); }

  /* For the headers: its number, and the variable that the elements pass through. */
  DataStream(std::string handle, DataStreamType type, uint32_t id, Tensor elements)
      : handle_(std::move(handle)), type_(type), id_(id), elements_(std::move(elements)) {}
  uint32_t id() const { return id_; }
  const Tensor &elements() const { return elements_; }

 private:
  std::string handle_;
  DataStreamType type_ = DataStreamType::HostToDeviceFIFO;
  uint32_t id_ = 0;
  Tensor elements_;
};

} // namespace poplar

#endif // TREMULA_POPLAR_DATA_STREAM_HPP_
