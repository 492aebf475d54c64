// edgewise_backend.hpp: a backend of Edgewise in C++17, in one header without dependencies. docs/backends.md describes
// the protocol, version 1, of which this is the reference in C++.
//
//   struct Add : edgewise::Model {
//     void execute(const edgewise::Batch& batch) override {
//       for (auto& call : batch.calls) { ... call->respond({output, ...}).send(true); }
//     }
//   };
//   int main() { return edgewise::serve([](const edgewise::Start&) { return std::make_unique<Add>(); }); }
//
// execute runs on the thread that called serve, which also reads what the server sends, so that a batch wakes one
// thread and no second one; another thread reads while execute takes long. Every method of a Call may be called by any
// thread, also after execute has returned, as the calls of a decoupled model are: a call ends with its last response.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace edgewise {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the protocol is little-endian, and so are tensors");

constexpr int protocol = 1;

enum class Code : uint8_t {
  Unknown = 1,
  Internal,
  NotFound,
  InvalidArgument,
  Unavailable,
  Unsupported,
  AlreadyExists,
  Cancelled
};

struct Error : std::runtime_error {
  Code code;
  Error(Code c, const std::string& message) : std::runtime_error(message), code(c) {}
};

// Data types have Triton's numbers.
enum class Type : uint8_t {
  Bool = 1,
  UInt8,
  UInt16,
  UInt32,
  UInt64,
  Int8,
  Int16,
  Int32,
  Int64,
  FP16,
  FP32,
  FP64,
  Bytes,
  BF16
};

// width returns the bytes of an element, 0 of Bytes.
inline uint64_t width(Type type) {
  constexpr uint8_t widths[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 0, 2};
  auto number = static_cast<size_t>(type);
  if (number == 0 || number >= sizeof widths) throw Error(Code::InvalidArgument, "a data type without a meaning");
  return widths[number];
}

// elements returns how many elements a shape has; Error when it is negative anywhere or more than memory can hold.
inline uint64_t elements(const std::vector<int64_t>& shape) {
  uint64_t product = 1;
  for (auto dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(product, static_cast<uint64_t>(dim), &product) || product > UINT64_C(1) << 48)
      throw Error(Code::InvalidArgument, "a shape is out of range");
  }
  return product;
}

// ---- JSON: what START says. Depth and size are bounded: the text comes in one frame.

class Json {
 public:
  static Json parse(std::string_view text) {
    Parser parser{text.data(), text.data() + text.size()};
    Json value = parser.value(0);
    parser.space();
    if (parser.at != parser.end) parser.fail();
    return value;
  }
  // operator[] returns a field of an object, otherwise null.
  const Json& operator[](std::string_view key) const& {
    static const Json null;
    for (auto& field : fields_)
      if (field.first == key) return field.second;
    return null;
  }
  const std::vector<Json>& items() const& { return items_; }
  const std::vector<std::pair<std::string, Json>>& fields() const& { return fields_; }
  // What refers into a value does not outlive it: a loop over that of a temporary does not compile.
  void operator[](std::string_view key) const&& = delete;
  void items() const&& = delete;
  void fields() const&& = delete;
  bool null() const { return kind_ == '\0'; }
  bool boolean(bool otherwise = false) const { return kind_ == 'b' ? text_ == "true" : otherwise; }
  std::string text(const std::string& otherwise = "") const { return kind_ == '"' || kind_ == '0' ? text_ : otherwise; }
  int64_t integer(int64_t otherwise = 0) const { return number(otherwise, std::strtoll, 10); }
  double real(double otherwise = 0) const { return number(otherwise, std::strtod); }

  static std::string quote(std::string_view text) {
    static const char* hex = "0123456789abcdef";
    std::string out = "\"";
    for (unsigned char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      if (c < 0x20) {
        out += "\\u00";
        out += hex[c >> 4];
        out += hex[c & 15];
      } else {
        out += static_cast<char>(c);
      }
    }
    return out + '"';
  }

 private:
  char kind_ = '\0';  // '\0' null, b, 0 (a number), ", [, {
  std::string text_;
  std::vector<Json> items_;
  std::vector<std::pair<std::string, Json>> fields_;

  template <typename T, typename Convert, typename... Rest>
  T number(T otherwise, Convert convert, Rest... rest) const {
    if (kind_ != '"' && kind_ != '0') return otherwise;
    char* end = nullptr;
    T value = convert(text_.c_str(), &end, rest...);
    return end == text_.c_str() || *end != '\0' ? otherwise : value;
  }

  struct Parser {
    const char* at;
    const char* end;

    [[noreturn]] static void fail() { throw Error(Code::InvalidArgument, "a text is not JSON"); }
    void space() {
      while (at != end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) at++;
    }
    char next() {
      space();
      if (at == end) fail();
      return *at;
    }
    bool skip(char c) {
      if (next() != c) return false;
      at++;
      return true;
    }
    Json value(int depth) {
      if (depth > 64) fail();
      Json v;
      switch (v.kind_ = next()) {
        case '{': object(v, depth); break;
        case '[': list(v, depth); break;
        case '"': v.text_ = string(); break;
        default: word(v);
      }
      return v;
    }
    void object(Json& v, int depth) {
      at++;
      while (!skip('}')) {
        if (!v.fields_.empty() && !skip(',')) fail();
        if (next() != '"') fail();
        std::string key = string();
        if (!skip(':')) fail();
        v.fields_.emplace_back(std::move(key), value(depth + 1));
      }
    }
    void list(Json& v, int depth) {
      at++;
      while (!skip(']')) {
        if (!v.items_.empty() && !skip(',')) fail();
        v.items_.push_back(value(depth + 1));
      }
    }
    void word(Json& v) {
      const char* from = at;
      while (at != end && (std::isalnum(static_cast<unsigned char>(*at)) || std::strchr("+-.", *at))) at++;
      v.text_.assign(from, at);
      if (v.text_ == "null") {
        v.kind_ = '\0';
      } else if (v.text_ == "true" || v.text_ == "false") {
        v.kind_ = 'b';
      } else {
        v.kind_ = '0';
        char* rest = nullptr;
        std::strtod(v.text_.c_str(), &rest);
        if (v.text_.empty() || *rest != '\0') fail();
      }
    }
    unsigned hex() {
      if (end - at < 4) fail();
      char digits[5] = {at[0], at[1], at[2], at[3], '\0'};
      char* rest = nullptr;
      auto code = static_cast<unsigned>(std::strtoul(digits, &rest, 16));
      if (rest != digits + 4) fail();
      at += 4;
      return code;
    }
    std::string string() {
      std::string out;
      for (at++;; at++) {
        if (at == end) fail();
        if (*at == '"') break;
        if (*at != '\\') {
          out += *at;
          continue;
        }
        if (++at == end) fail();
        static const std::string_view names = "bfnrt", means = "\b\f\n\r\t";
        if (auto i = names.find(*at); i != names.npos) {
          out += means[i];
        } else if (*at == 'u') {
          at++;
          escape(out);
          at--;
        } else {
          out += *at;
        }
      }
      at++;
      return out;
    }
    void escape(std::string& out) {
      unsigned code = hex();
      if (code >= 0xd800 && code < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        at += 2;
        code = 0x10000 + ((code - 0xd800) << 10) + ((hex() - 0xdc00) & 0x3ff);
      }
      if (code < 0x80) {
        out += static_cast<char>(code);
        return;
      }
      int tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
      static constexpr unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
      out += static_cast<char>(lead[tail] | code >> (6 * tail));
      while (tail-- > 0) out += static_cast<char>(0x80 | ((code >> (6 * tail)) & 0x3f));
    }
  };
};

// ---- What requests and responses consist of

using Parameter = std::variant<bool, int64_t, double, std::string>;
using Parameters = std::map<std::string, Parameter>;

// Tensor is an input of a call or an output of another model. Its memory is the server's: it can be read until the call
// ends or its inputs are released, and by nobody written to.
struct Tensor {
  std::string name;
  Type type = Type::Bytes;
  std::vector<int64_t> shape;
  const uint8_t* data = nullptr;
  uint64_t size = 0;

  template <typename T>
  const T* as() const {
    if (sizeof(T) != width(type)) throw Error(Code::InvalidArgument, name + " has elements of another size");
    return reinterpret_cast<const T*>(data);
  }
  // strings returns the elements of a tensor of Bytes, where they stand.
  std::vector<std::string_view> strings() const {
    if (type != Type::Bytes) throw Error(Code::InvalidArgument, name + " is not of BYTES");
    std::vector<std::string_view> list;
    for (uint64_t at = 0; at < size;) {
      uint32_t length = 0;
      if (size - at < sizeof length) throw Error(Code::InvalidArgument, name + " is cut off");
      std::memcpy(&length, data + at, sizeof length);
      at += sizeof length;
      if (size - at < length) throw Error(Code::InvalidArgument, name + " is cut off");
      list.emplace_back(reinterpret_cast<const char*>(data) + at, length);
      at += length;
    }
    if (list.size() != elements(shape)) throw Error(Code::InvalidArgument, name + " has another number of elements");
    return list;
  }
};

// Output is a tensor to be sent: its content is text, or written through Response::data when text is empty.
struct Output {
  std::string name;
  Type type;
  std::vector<int64_t> shape;
  std::string text = {};

  uint64_t size() const { return text.empty() ? elements(shape) * width(type) : text.size(); }

  // copy returns a tensor under another name.
  static Output copy(std::string name, const Tensor& tensor) {
    return {std::move(name), tensor.type, tensor.shape,
            std::string(reinterpret_cast<const char*>(tensor.data), tensor.size)};
  }
  static Output strings(std::string name, std::vector<int64_t> shape, const std::vector<std::string>& values) {
    Output output{std::move(name), Type::Bytes, std::move(shape)};
    if (elements(output.shape) != values.size())
      throw Error(Code::Internal, output.name + ": strings of another number");
    for (auto& value : values) {
      auto length = static_cast<uint32_t>(value.size());
      output.text.append(reinterpret_cast<const char*>(&length), sizeof length).append(value);
    }
    return output;
  }
};

// ---- Frames

constexpr size_t longest_frame = 1 << 20;

class Writer {
 public:
  explicit Writer(uint8_t kind) { u32(0).u8(kind); }
  Writer& u8(uint8_t v) { return put(&v, sizeof v); }
  Writer& u16(size_t v) { return narrow<uint16_t>(v); }
  Writer& u32(size_t v) { return narrow<uint32_t>(v); }
  Writer& u64(uint64_t v) { return put(&v, sizeof v); }
  Writer& i64(int64_t v) { return put(&v, sizeof v); }
  Writer& f64(double v) { return put(&v, sizeof v); }
  Writer& str(std::string_view v) { return u16(v.size()).put(v.data(), v.size()); }
  Writer& text(std::string_view v) { return u32(v.size()).put(v.data(), v.size()); }
  Writer& parameters(const Parameters& all) {
    u16(all.size());
    for (auto& [name, value] : all) {
      str(name).u8(static_cast<uint8_t>(value.index() + 1));
      if (auto b = std::get_if<bool>(&value))
        u8(*b);
      else if (auto i = std::get_if<int64_t>(&value))
        i64(*i);
      else if (auto d = std::get_if<double>(&value))
        f64(*d);
      else
        text(std::get<std::string>(value));
    }
    return *this;
  }
  Writer& tensor(const Output& o, uint64_t offset) {
    str(o.name).u8(static_cast<uint8_t>(o.type)).u8(static_cast<uint8_t>(o.shape.size()));
    for (auto dim : o.shape) i64(dim);
    return u64(offset).u64(o.size());
  }
  // frame returns the whole frame, with its length at the front.
  const std::string& frame() {
    auto rest = static_cast<uint32_t>(bytes_.size() - sizeof(uint32_t));
    if (rest > longest_frame) throw Error(Code::Internal, "a message is longer than 1 MiB");
    std::memcpy(bytes_.data(), &rest, sizeof rest);
    return bytes_;
  }

 private:
  std::string bytes_;
  Writer& put(const void* from, size_t n) {
    bytes_.append(static_cast<const char*>(from), n);
    return *this;
  }
  template <typename T>
  Writer& narrow(size_t v) {
    if (v > std::numeric_limits<T>::max())
      throw Error(Code::Internal, "a message has too long a text, or too many parts");
    T small = static_cast<T>(v);
    return put(&small, sizeof small);
  }
};

class Reader {
 public:
  Reader(const uint8_t* from, size_t n) : at_(from), end_(from + n) {}
  uint8_t u8() { return get<uint8_t>(); }
  uint16_t u16() { return get<uint16_t>(); }
  uint32_t u32() { return get<uint32_t>(); }
  uint64_t u64() { return get<uint64_t>(); }
  int64_t i64() { return get<int64_t>(); }
  std::string str() { return take(u16()); }
  std::string text() { return take(u32()); }
  Parameters parameters() {
    Parameters all;
    for (auto n = u16(); n > 0; n--) {
      auto name = str();
      switch (u8()) {
        case 1: all[name] = u8() != 0; break;
        case 2: all[name] = i64(); break;
        case 3: all[name] = get<double>(); break;
        case 4: all[name] = text(); break;
        default: throw Error(Code::Internal, "a parameter of an unknown type");
      }
    }
    return all;
  }
  // end checks that the message has been read to its end.
  void end() const {
    if (at_ != end_) throw Error(Code::Internal, "bytes follow the end of a message");
  }
  std::vector<std::string> names() {
    std::vector<std::string> list(u16());
    for (auto& name : list) name = str();
    return list;
  }
  // tensors reads tensors whose bytes stand in the memory of that size; first becomes the lowest offset of one that has
  // bytes.
  std::vector<Tensor> tensors(const uint8_t* memory, uint64_t bytes, uint64_t& first) {
    std::vector<Tensor> list(u16());
    for (auto& t : list) {
      t.name = str();
      t.type = static_cast<Type>(u8());
      t.shape.resize(u8());
      for (auto& dim : t.shape) dim = i64();
      auto offset = u64();
      t.size = u64();
      if (offset > bytes || t.size > bytes - offset || offset % 64 != 0)
        throw Error(Code::Internal, t.name + " lies outside the memory");
      if (auto w = width(t.type); w != 0 && elements(t.shape) * w != t.size)
        throw Error(Code::Internal, t.name + " has another size than its shape");
      t.data = memory + offset;
      if (t.size > 0 && offset < first) first = offset;
    }
    return list;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  template <typename T>
  T get() {
    T v;
    std::memcpy(&v, need(sizeof v), sizeof v);
    return v;
  }
  const uint8_t* need(size_t n) {
    if (static_cast<size_t>(end_ - at_) < n) throw Error(Code::Internal, "a message is cut off");
    return std::exchange(at_, at_ + n);
  }
  std::string take(size_t n) { return std::string(reinterpret_cast<const char*>(need(n)), n); }
};

// ---- The connection

constexpr uint64_t no_block = UINT64_MAX;
constexpr unsigned most_untaken = 64;  // responses of one call that the server has not given back

// relief_ns is how long a batch may take at least before another thread reads, in which nothing is seen of a CANCEL or a
// PING, and last_relief_ns how long at most.
constexpr int64_t relief_ns = 2'000'000, last_relief_ns = 4'000'000;

class Connection {
 public:
  int socket = 3, input_fd = 4, output_fd = 5;
  const uint8_t* input = nullptr;
  uint8_t* output = nullptr;
  uint64_t input_bytes = 0, output_bytes = 0;

  void send(Writer& writer) {
    auto& frame = writer.frame();
    std::lock_guard<std::mutex> lock(sending_);
    pending_ += frame;
    send_pending();
  }
  // queue lets a frame go with the next one that is sent.
  void queue(Writer& writer) {
    auto& frame = writer.frame();
    std::lock_guard<std::mutex> lock(sending_);
    pending_ += frame;
  }
  // send_unless sends a frame, or queues it where what sends the next one soon is still to come.
  void send_unless(const bool& soon, Writer& writer) {
    auto& frame = writer.frame();
    std::lock_guard<std::mutex> lock(sending_);
    pending_ += frame;
    if (!soon) send_pending();
  }
  // send_and sends a frame after which nothing is queued for it any more.
  void send_and(bool& soon, Writer& writer) {
    auto& frame = writer.frame();
    std::lock_guard<std::mutex> lock(sending_);
    soon = false;
    pending_ += frame;
    send_pending();
  }
  void flush() {
    std::lock_guard<std::mutex> lock(sending_);
    send_pending();
  }
  // postpone lets another thread read in relief_ns to last_relief_ns, unless one does: many batches of that time set the
  // timer once.
  void postpone() {
    timespec clock{};
    clock_gettime(CLOCK_MONOTONIC, &clock);
    int64_t now = clock.tv_sec * INT64_C(1'000'000'000) + clock.tv_nsec;
    if (expires_ - now >= relief_ns) return;
    expires_ = now + last_relief_ns;
    expire_in(last_relief_ns);
  }
  // relieve lets another thread read now, unless one does.
  void relieve() {
    expire_in(1);
    expires_ = 0;  // the next batch sets the timer again
  }
  void await_relief() {
    uint64_t times = 0;
    while (::read(timer_, &times, sizeof times) < 0 && errno == EINTR) {
    }
  }
  ~Connection() {
    if (timer_ >= 0) close(timer_);
  }
  // receive reads a frame into buffer and returns its kind; 0: the server has gone.
  uint8_t receive(std::vector<uint8_t>& buffer) {
    uint32_t length = 0;
    if (!read(&length, sizeof length)) return 0;
    if (length == 0 || length > longest_frame) throw Error(Code::Internal, "a frame has an invalid length");
    buffer.resize(length);
    return read(buffer.data(), length) ? buffer[0] : 0;
  }
  void map() {
    input = static_cast<const uint8_t*>(map(input_fd, input_bytes, PROT_READ));
    output = static_cast<uint8_t*>(map(output_fd, output_bytes, PROT_READ | PROT_WRITE));
  }

  // reserve finds room in the output memory, and waits for it as long as goes_on; no_block for no bytes. open counts
  // the blocks of one call, of which the server lets most_untaken be untaken.
  uint64_t reserve(uint64_t bytes, const std::shared_ptr<unsigned>& open, const std::function<bool()>& goes_on) {
    if (bytes == 0) return no_block;
    if (bytes > output_bytes)
      throw Error(Code::Unsupported, "outputs of " + std::to_string(bytes) +
                                         " bytes, of which the output memory holds " + std::to_string(output_bytes));
    std::unique_lock<std::mutex> lock(lock_);
    for (;;) {
      if (gone_ || !goes_on()) throw Error(Code::Cancelled, "the request was cancelled");
      if (*open < most_untaken)
        if (auto offset = room(bytes); offset != no_block) {
          blocks_[offset] = Block{bytes, open};
          ++*open;
          return offset;
        }
      relieve();
      changed_.wait(lock);
    }
  }
  // has_room tells whether reserve would not wait.
  bool has_room(uint64_t bytes, const std::shared_ptr<unsigned>& open) {
    std::lock_guard<std::mutex> lock(lock_);
    return *open < most_untaken && room(bytes) != no_block;
  }
  // free ends the use of a block: the server has taken it, or it was never sent.
  void free(uint64_t offset) {
    std::lock_guard<std::mutex> lock(lock_);
    auto block = blocks_.find(offset);
    if (block == blocks_.end()) return;
    --*block->second.open;
    blocks_.erase(block);
    changed_.notify_all();
  }
  void wake(bool gone) {
    std::lock_guard<std::mutex> lock(lock_);
    gone_ = gone_ || gone;
    changed_.notify_all();
  }

 private:
  struct Block {
    uint64_t bytes;
    std::shared_ptr<unsigned> open;
  };
  std::mutex sending_, lock_;
  std::condition_variable changed_;
  std::map<uint64_t, Block> blocks_;  // of the output memory, by offset
  bool gone_ = false;
  std::string pending_;  // frames that were not sent
  int timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  std::atomic<int64_t> expires_{0};  // when the timer does, or would if it had not since
  std::vector<char> inbox_ = std::vector<char>(16 << 10);
  size_t from_ = 0, to_ = 0;  // what stands in inbox_ and was not returned

  void expire_in(int64_t nanoseconds) {
    itimerspec when{};
    when.it_value.tv_nsec = nanoseconds;
    timerfd_settime(timer_, 0, &when, nullptr);
  }
  void send_pending() {
    for (size_t sent = 0; sent < pending_.size();) {
      auto n = ::send(socket, pending_.data() + sent, pending_.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        pending_.clear();
        throw Error(Code::Unavailable, "the server has gone");
      }
      sent += static_cast<size_t>(n);
    }
    pending_.clear();
  }

  // room returns the first gap of that size; gaps near the front have been touched before, and cost no new page.
  uint64_t room(uint64_t bytes) const {
    uint64_t at = 0;
    for (auto& [offset, block] : blocks_) {
      if (offset >= at && offset - at >= bytes) return at;
      at = (offset + block.bytes + 63) / 64 * 64;
    }
    return at <= output_bytes && output_bytes - at >= bytes ? at : no_block;
  }
  bool read(void* to, size_t n) {
    for (size_t have = 0; have < n;) {
      if (from_ == to_) {
        auto got = ::recv(socket, inbox_.data(), inbox_.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        from_ = 0;
        to_ = static_cast<size_t>(got);
      }
      auto part = std::min(n - have, to_ - from_);
      std::memcpy(static_cast<char*>(to) + have, inbox_.data() + from_, part);
      have += part;
      from_ += part;
    }
    return true;
  }
  static void* map(int fd, uint64_t bytes, int protection) {
    struct stat file {};
    if (fstat(fd, &file) != 0 || file.st_size < 0 || static_cast<uint64_t>(file.st_size) < bytes)
      throw Error(Code::Internal, "descriptor " + std::to_string(fd) + " is not memory of that size");
    if (bytes == 0) return nullptr;
    void* at = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) throw Error(Code::Internal, std::string("mmap: ") + std::strerror(errno));
    return at;
  }
};

// Block is memory of the server's that holds tensors: it is given back when the last one that reads it lets go, by the
// next frame.
struct Block {
  Connection& connection;
  uint64_t offset;
  ~Block() {
    if (offset == no_block) return;
    try {
      connection.queue(Writer(38).u64(offset));
    } catch (const Error&) {  // the server has gone
    }
  }
};

// Progress is that of a batch.
struct Progress {
  std::atomic<unsigned> open{0};  // calls without a last response
  bool running = true;            // execute has not returned; guarded by the connection
};

// Placed is a message with tensors in the output memory; sent or not, its memory is accounted for.
class Placed {
 public:
  Placed(Connection& connection, std::vector<Output> outputs, const std::shared_ptr<unsigned>& open,
         const std::function<bool()>& goes_on)
      : connection_(&connection), outputs_(std::move(outputs)) {
    uint64_t bytes = 0;
    for (auto& output : outputs_) {
      offsets_.push_back(bytes);
      bytes += (output.size() + 63) / 64 * 64;
    }
    block_ = connection.reserve(bytes, open, goes_on);
    for (size_t i = 0; i < outputs_.size(); i++) {
      if (block_ == no_block || outputs_[i].size() == 0)
        offsets_[i] = 0;
      else
        offsets_[i] += block_;
      if (!outputs_[i].text.empty()) std::memcpy(data(i), outputs_[i].text.data(), outputs_[i].text.size());
    }
  }
  Placed(Placed&& other) noexcept
      : connection_(other.connection_),
        outputs_(std::move(other.outputs_)),
        offsets_(std::move(other.offsets_)),
        block_(std::exchange(other.block_, no_block)) {}
  Placed& operator=(Placed&&) = delete;
  ~Placed() {
    if (block_ != no_block) connection_->free(block_);
  }
  // data returns where tensor i is written before it is sent.
  uint8_t* data(size_t i) { return connection_->output + offsets_.at(i); }
  void write(Writer& writer) const {
    writer.u16(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); i++) writer.tensor(outputs_[i], offsets_[i]);
  }
  void sent() { block_ = no_block; }  // the server gives it back

 private:
  Connection* connection_;
  std::vector<Output> outputs_;
  std::vector<uint64_t> offsets_;
  uint64_t block_ = no_block;
};

// ---- Calls

class Call;

// Response is an answer whose outputs have their memory: written to through as, then sent. One that is not sent costs
// nothing.
class Response {
 public:
  Parameters parameters;
  template <typename T>
  T* as(size_t output) {
    return reinterpret_cast<T*>(placed_.data(output));
  }
  // send hands the response over; last: the call ends with it.
  void send(bool last);

 private:
  friend class Call;
  Response(std::shared_ptr<Call> call, Placed placed) : call_(std::move(call)), placed_(std::move(placed)) {}
  std::shared_ptr<Call> call_;
  Placed placed_;
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  std::string id;
  uint64_t correlation = 0;
  std::string correlation_text;
  bool sequence_start = false, sequence_end = false;
  uint64_t priority = 0, timeout_us = 0;
  Parameters parameters;
  std::vector<std::string> wanted;  // the outputs; empty: all
  std::vector<Tensor> inputs;

  const Tensor* find(std::string_view name) const {
    for (auto& tensor : inputs)
      if (tensor.name == name) return &tensor;
    return nullptr;
  }
  const Tensor& input(std::string_view name) const {
    if (auto tensor = find(name)) return *tensor;
    throw Error(Code::InvalidArgument, "the input " + std::string(name) + " is missing");
  }
  bool wants(std::string_view name) const {
    for (auto& output : wanted)
      if (output == name) return true;
    return wanted.empty();
  }
  bool cancelled() const { return cancelled_; }
  bool ended() const { return ended_; }
  // respond gives a response its memory, of the outputs in that order. It waits while the client is slow to take
  // earlier ones; Error of Cancelled when the client has gone.
  Response respond(std::vector<Output> outputs) {
    return Response(shared_from_this(),
                    Placed(connection_, std::move(outputs), open_, [this] { return !cancelled_.load(); }));
  }
  // can_respond tells whether respond would return at once, for a thread that alone sends: one that serves many calls
  // sends to those whose clients are not slow. Model::changed says when to ask again.
  bool can_respond(uint64_t bytes) { return connection_.has_room(bytes, open_); }
  // end ends the call without outputs.
  void end() { last(Writer(34).u64(number_).u8(1 | 4).parameters({}).u16(0)); }
  void fail(const Error& error) {
    last(Writer(34)
             .u64(number_)
             .u8(1 | 2)
             .u8(static_cast<uint8_t>(error.code))
             .text(error.what())
             .parameters({})
             .u16(0));
  }
  // release_inputs ends the use of the inputs before the call ends: a long stream holds no memory of the server's.
  void release_inputs() {
    inputs.clear();
    block_.reset();
    connection_.flush();
  }
  ~Call() {
    try {
      fail(Error(Code::Internal, "the backend let go of the request without a last answer"));
    } catch (const Error&) {  // the server has gone
    }
  }

  Call(Connection& connection, Reader& reader, std::shared_ptr<Block> block, std::shared_ptr<Progress> progress)
      : connection_(connection), block_(std::move(block)), progress_(std::move(progress)), number_(reader.u64()) {
    id = reader.str();
    correlation = reader.u64();
    correlation_text = reader.str();
    auto flags = reader.u32();
    sequence_start = flags & 1;
    sequence_end = flags & 2;
    priority = reader.u64();
    timeout_us = reader.u64();
    parameters = reader.parameters();
    wanted = reader.names();
    inputs = reader.tensors(connection.input, connection.input_bytes, block_->offset);
  }

 private:
  friend class Response;
  friend class Server;
  Connection& connection_;
  std::shared_ptr<Block> block_;
  std::shared_ptr<Progress> progress_;
  uint64_t number_;
  std::atomic<bool> cancelled_{false}, ended_{false};
  std::shared_ptr<unsigned> open_ = std::make_shared<unsigned>(0);

  // last sends the frame that ends the call, once. That of the last call of a batch goes with the end of execute.
  void last(Writer& frame) {
    if (ended_.exchange(true)) return;
    inputs.clear();
    block_.reset();
    if (--progress_->open > 0)
      connection_.send(frame);
    else
      connection_.send_unless(progress_->running, frame);
  }
};

inline void Response::send(bool last) {
  Writer frame(34);
  frame.u64(call_->number_).u8(last ? 1 : 0).parameters(parameters);
  placed_.write(frame);
  placed_.sent();
  if (last)
    call_->last(frame);
  else
    call_->connection_.send(frame);
}

// ---- The server of calls

struct Batch {
  std::vector<std::shared_ptr<Call>> calls;
  bool joined;  // inputs of the same name lie one after the other, from that of the first call on, in the order of the
                // calls
};

struct Model {
  virtual ~Model() = default;
  // signature returns what READY says, as JSON: {} when the configuration says everything.
  virtual std::string signature() { return "{}"; }
  // execute answers the calls, or keeps them to answer later. An Error ends those that it has not kept.
  virtual void execute(const Batch& batch) = 0;
  // unready returns why the model is not ready, "" when it is; the server asks when signature says "checks". Any thread
  // calls it.
  virtual std::string unready() { return ""; }
  // changed is called when the server has taken a response, or a request was cancelled. Any thread calls it; it returns
  // at once.
  virtual void changed() {}
  // memory returns the bytes that the model counts itself, 0 when it counts none. Any thread calls it.
  virtual uint64_t memory() { return 0; }
};

struct Start {
  std::string model, directory, model_directory;
  int64_t version, threads;
  bool complete, describe;  // the configuration shall be completed; only that is wanted
  Json all;                 // with all["configuration"] and all["instance"]
};

// Reply is a response of another model of the server.
struct Reply {
  std::string model;
  int64_t version = 0;
  bool last = false, empty = false, failed = false;
  Code code = Code::Unknown;
  std::string message;
  Parameters parameters;
  std::vector<Tensor> outputs;
  std::shared_ptr<Block> block;  // of the outputs
};

struct Execution {
  std::string model;
  int64_t version = -1;  // the latest
  std::vector<Output> inputs;
  std::vector<std::string> wanted;
  Parameters parameters;
  uint64_t correlation = 0;
  bool sequence_start = false, sequence_end = false;
  bool decoupled = false;  // the model may answer any number of times
};

class Server {
 public:
  Connection connection;
  using Load = std::function<std::unique_ptr<Model>(const Start&)>;

  // run serves until the server says so, and returns the exit status.
  int run(const Load& load) {
    std::vector<uint8_t> buffer;
    if (connection.receive(buffer) != 1) return 1;
    std::unique_ptr<Model> model;
    bool describe = false;
    try {
      auto start = begin(buffer);
      describe = start.describe;
      model = load(start);
      connection.send(Writer(33).text(model->signature()));
    } catch (const std::exception& e) {
      auto error = dynamic_cast<const Error*>(&e);
      auto code = std::to_string(static_cast<int>(error ? error->code : Code::Internal));
      connection.send(Writer(33).text("{\"error\":{\"code\":" + code + ",\"message\":" + Json::quote(e.what()) + "}}"));
      return 1;
    }
    if (describe) return 0;
    std::thread other([this, &model] { relieve(*model); });
    while (next(*model)) {
    }
    ::shutdown(connection.socket, SHUT_RD);
    connection.relieve();
    other.join();
    model.reset();
    return 0;
  }

  // exec runs another model of the server's, and hands each of its responses to each, whose Error cancels the rest.
  // parent may be null. Error is that of the other model.
  void exec(Execution execution, const std::function<void(const Reply&)>& each, const Call* parent);

  // control asks the server to load or unload a model, or whether one is ready, and returns its answer; JSON both.
  std::string control(std::string_view json) {
    std::unique_lock<std::mutex> lock(lock_);
    auto number = ++numbers_;
    auto& answer = answers_[number];
    lock.unlock();
    connection.send(Writer(42).u64(number).text(json));
    connection.relieve();
    lock.lock();
    changed_.wait(lock, [&] { return !answer.empty() || stopped_; });
    auto text = std::move(answer);
    answers_.erase(number);
    return text;
  }
  // log writes a line; levels are 0 verbose, 1 info, 2 warning and 3 error.
  void log(int level, std::string_view text) { connection.send(Writer(39).u8(static_cast<uint8_t>(level)).text(text)); }
  void metric(std::string_view json) { connection.send(Writer(40).text(json)); }

 private:
  struct Run {
    uint64_t number;
    Batch batch;
    std::shared_ptr<Progress> progress;
  };
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<Run> runs_;
  bool stopped_ = false;
  bool reading_ = false;  // a thread reads what the server sends
  std::unordered_map<uint64_t, std::weak_ptr<Call>> calls_;
  std::unordered_map<uint64_t, std::deque<Reply>> replies_;  // of the executions that wait
  std::unordered_map<uint64_t, std::string> answers_;        // of the controls that wait
  uint64_t numbers_ = 0;                                     // of executions and controls
  std::vector<uint8_t> buffer_;                              // of the thread that reads

  Start begin(const std::vector<uint8_t>& buffer) {
    Reader reader(buffer.data() + 1, buffer.size() - 1);
    auto all = Json::parse(reader.text());
    if (all["protocol"].integer() != protocol) throw Error(Code::Unsupported, "the server speaks another protocol");
    connection.input_bytes = static_cast<uint64_t>(all["input_bytes"].integer());
    connection.output_bytes = static_cast<uint64_t>(all["output_bytes"].integer());
    connection.map();
    return Start{
        all["model"].text(),       all["directory"].text(),   all["model_directory"].text(), all["version"].integer(),
        all["threads"].integer(1), all["complete"].boolean(), all["describe"].boolean(),     all};
  }

  // next executes the next run; false: there is none any more.
  bool next(Model& model) {
    std::unique_lock<std::mutex> lock(lock_);
    while (runs_.empty() && !stopped_) {
      if (reading_)
        changed_.wait(lock);
      else
        read(model, lock);
    }
    if (runs_.empty()) return false;
    Run run = std::move(runs_.front());
    runs_.pop_front();
    lock.unlock();
    connection.postpone();
    try {
      execute(model, run.batch);
      run.batch.calls.clear();
      connection.send_and(run.progress->running, Writer(35).u64(run.number));
    } catch (const Error&) {  // the server has gone
      return false;
    }
    return true;
  }
  void execute(Model& model, Batch& batch) {
    try {
      model.execute(batch);
    } catch (const Error& error) {
      for (auto& call : batch.calls) call->fail(error);
    } catch (const std::exception& e) {
      for (auto& call : batch.calls) call->fail(Error(Code::Internal, e.what()));
    }
  }

  void check(Model& model, uint64_t number) {
    auto reason = model.unready();
    connection.send(Writer(43).u64(number).u8(reason.empty()).text(reason));
  }
  void answer(Reader& reader) {
    auto number = reader.u64();
    auto text = reader.text();
    std::lock_guard<std::mutex> lock(lock_);
    if (auto it = answers_.find(number); it != answers_.end()) it->second = std::move(text);
    changed_.notify_all();
  }

  // relieve reads while execute takes long.
  void relieve(Model& model) {
    std::unique_lock<std::mutex> lock(lock_);
    while (!stopped_) {
      lock.unlock();
      connection.await_relief();
      lock.lock();
      if (!reading_ && !stopped_) read(model, lock);
    }
  }
  // read handles what the server sends until there is a run, or the end. A process whose server has gone, or that
  // cannot follow it, ends at once.
  void read(Model& model, std::unique_lock<std::mutex>& lock) {
    reading_ = true;
    try {
      while (runs_.empty() && !stopped_) {
        lock.unlock();
        auto kind = connection.receive(buffer_);
        if (kind != 0) {
          Reader reader(buffer_.data() + 1, buffer_.size() - 1);
          handle(model, kind, reader);
        }
        lock.lock();
        if (kind == 0 && !stopped_) _exit(1);
      }
    } catch (const std::exception& e) {
      try {
        log(3, e.what());
      } catch (const Error&) {  // the server has gone
      }
      _exit(1);
    }
    reading_ = false;
    changed_.notify_all();
  }
  void handle(Model& model, uint8_t kind, Reader& reader) {
    switch (kind) {
      case 2: return take(reader);
      case 3: cancel(reader.u64()); return model.changed();
      case 4: connection.free(reader.u64()); return model.changed();
      case 5: return reply(reader);
      case 6: stop(); return model.changed();
      case 7: return connection.send(Writer(41).u64(reader.u64()).u64(model.memory()));
      case 8: return answer(reader);
      case 9: return check(model, reader.u64());
      default: throw Error(Code::Internal, "the server sent a message of the unknown kind " + std::to_string(kind));
    }
  }
  void take(Reader& reader) {
    Run run{reader.u64(), {}, std::make_shared<Progress>()};
    run.batch.joined = reader.u8() & 1;
    auto block = std::make_shared<Block>(Block{connection, no_block});
    auto n = reader.u16();
    run.progress->open = n;
    for (; n > 0; n--) run.batch.calls.push_back(std::make_shared<Call>(connection, reader, block, run.progress));
    reader.end();
    std::lock_guard<std::mutex> lock(lock_);
    for (auto it = calls_.begin(); it != calls_.end();) it = it->second.expired() ? calls_.erase(it) : std::next(it);
    for (auto& call : run.batch.calls) calls_[call->number_] = call;
    runs_.push_back(std::move(run));
    changed_.notify_all();
  }
  void cancel(uint64_t number) {
    std::shared_ptr<Call> call;
    {
      std::lock_guard<std::mutex> lock(lock_);
      if (auto it = calls_.find(number); it != calls_.end()) call = it->second.lock();
      if (call) call->cancelled_ = true;
      changed_.notify_all();
    }
    connection.wake(false);
  }
  // stop cancels what is open: the model ends after the run that it is in.
  void stop() {
    std::vector<std::shared_ptr<Call>> open;
    {
      std::lock_guard<std::mutex> lock(lock_);
      for (auto& [number, call] : calls_)
        if (auto kept = call.lock()) {
          kept->cancelled_ = true;
          open.push_back(std::move(kept));
        }
      stopped_ = true;
      changed_.notify_all();
    }
    connection.wake(true);
  }
  void reply(Reader& reader) {
    auto number = reader.u64();
    auto flags = reader.u8();
    Reply reply;
    reply.last = flags & 1;
    reply.failed = flags & 2;
    reply.empty = flags & 4;
    if (reply.failed) {
      reply.code = static_cast<Code>(reader.u8());
      reply.message = reader.text();
    }
    reply.model = reader.str();
    reply.version = reader.i64();
    reply.parameters = reader.parameters();
    reply.block = std::make_shared<Block>(Block{connection, no_block});
    reply.outputs = reader.tensors(connection.input, connection.input_bytes, reply.block->offset);
    reader.end();
    std::lock_guard<std::mutex> lock(lock_);
    if (auto it = replies_.find(number); it != replies_.end()) it->second.push_back(std::move(reply));
    changed_.notify_all();
  }
};

inline void Server::exec(Execution e, const std::function<void(const Reply&)>& each, const Call* parent) {
  auto goes_on = [&] { return !parent || !parent->cancelled(); };
  Placed placed(connection, std::move(e.inputs), std::make_shared<unsigned>(0), goes_on);
  std::unique_lock<std::mutex> lock(lock_);
  auto number = ++numbers_;
  auto& queue = replies_[number];
  lock.unlock();
  struct Forget {  // on every way out
    Server& server;
    uint64_t number;
    bool done = false;
    ~Forget() {
      {
        std::lock_guard<std::mutex> lock(server.lock_);
        server.replies_.erase(number);
      }
      try {
        if (!done) server.connection.send(Writer(37).u64(number));
      } catch (const Error&) {  // the server has gone
      }
    }
  } forget{*this, number};
  Writer frame(36);
  frame.u64(number).u64(parent ? parent->number_ : 0).u8(e.decoupled ? 1 : 0).str(e.model).i64(e.version);
  frame.str("").u64(e.correlation).str("").u32((e.sequence_start ? 1 : 0) | (e.sequence_end ? 2 : 0)).u64(0).u64(0);
  frame.parameters(e.parameters).u16(e.wanted.size());
  for (auto& name : e.wanted) frame.str(name);
  placed.write(frame);
  placed.sent();
  connection.send(frame);
  while (!forget.done) {
    connection.relieve();
    lock.lock();
    changed_.wait(lock, [&] { return !queue.empty() || stopped_ || !goes_on(); });
    if (queue.empty()) throw Error(Code::Cancelled, "the request was cancelled");
    Reply reply = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    forget.done = reply.last;
    if (reply.failed) throw Error(reply.code, reply.message);
    if (!reply.empty) each(reply);
    reply.block.reset();
    connection.flush();
  }
}

// server returns the one of this process.
inline Server& server() {
  static Server one;
  return one;
}

// serve is the main function of a backend.
inline int serve(const Server::Load& load) {
  try {
    return server().run(load);
  } catch (const std::exception& e) {
    dprintf(2, "%s\n", e.what());
    return 1;
  }
}

}  // namespace edgewise
