/* Streams of elements between the host and a program. */
#pragma once

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

/* Memory of the host's that programs copy from and to: rows of elements. Graph makes it. */
class RemoteBuffer {
 public:
  RemoteBuffer() = default;
  const std::string &handle() const { return handle_; }
  Type elementType() const { return rows_.elementType(); }
  std::size_t numElements() const { return rows_.dim(1); }
  std::size_t getRepeats() const { return rows_.dim(0); }

  /* For the headers: the variable, [repeats, elements]. */
  RemoteBuffer(std::string handle, Tensor rows)
      : handle_(std::move(handle)), rows_(std::move(rows)) {}
  const Tensor &rows() const { return rows_; }

 private:
  std::string handle_;
  Tensor rows_;
};

} // namespace poplar
