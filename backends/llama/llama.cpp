// backends/llama serves GGUF files with llama.cpp: text_input to text_output, a response for each piece of text.
// Requests that run at the same time are decoded in one batch; each may join and leave at any token.
// docs/guides/frameworks.md has the inputs and parameters.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>

#include "../cpp/edgewise_backend.hpp"
#include "runtime.hpp"

namespace {

using edgewise::Call;
using edgewise::Code;
using edgewise::Error;
using edgewise::Json;
using edgewise::Output;
using edgewise::Tensor;
using edgewise::Type;

// ---- What a request asks for

// Options looks a name up among the inputs, the request's parameters and the fields of sampling_parameters, in this
// order.
class Options {
 public:
  explicit Options(const Call& call) : call_(call) {
    if (auto text = find("sampling_parameters"); !text.empty()) sampling_ = Json::parse(text);
  }
  // find returns a value as text, "" when there is none.
  std::string find(const std::string& name) const {
    if (auto input = call_.find(name); input && input->size > 0)
      return input->type == Type::Bytes ? first(*input) : number(*input);
    if (auto at = call_.parameters.find(name); at != call_.parameters.end()) return text(at->second);
    return sampling_[name].null() ? "" : sampling_[name].boolean() ? "1" : sampling_[name].text("0");
  }
  double real(const std::string& name, double otherwise, double least, double most) const {
    auto value = find(name);
    if (value.empty()) return otherwise;
    char* end = nullptr;
    double v = std::strtod(value.c_str(), &end);
    if (*end != '\0' || !(v >= least && v <= most))
      throw Error(Code::InvalidArgument, name + " is out of range: " + value);
    return v;
  }
  // strings returns a list: an input of several elements, a JSON list, or one string.
  std::vector<std::string> strings(const std::string& name) const {
    std::vector<std::string> list;
    if (auto input = call_.find(name); input && input->type == Type::Bytes) {
      for (auto element : input->strings()) list.emplace_back(element);
    } else if (auto& items = sampling_[name].items(); !items.empty()) {
      for (auto& item : items) list.push_back(item.text());
    } else if (auto text = find(name); !text.empty() && text[0] == '[') {
      auto json = Json::parse(text);
      for (auto& item : json.items()) list.push_back(item.text());
    } else {
      list.push_back(text);
    }
    list.erase(std::remove(list.begin(), list.end(), ""), list.end());
    return list;
  }

 private:
  const Call& call_;
  Json sampling_;

  static std::string first(const Tensor& input) {
    auto list = input.strings();
    return list.empty() ? "" : std::string(list.front());
  }
  static std::string number(const Tensor& input) {
    switch (input.type) {
      case Type::Bool: return std::to_string(*input.data != 0);
      case Type::Int32: return std::to_string(*input.as<int32_t>());
      case Type::UInt32: return std::to_string(*input.as<uint32_t>());
      case Type::Int64: return std::to_string(*input.as<int64_t>());
      case Type::UInt64: return std::to_string(*input.as<uint64_t>());
      case Type::FP32: return std::to_string(*input.as<float>());
      case Type::FP64: return std::to_string(*input.as<double>());
      default: throw Error(Code::InvalidArgument, input.name + " has a data type that is not supported");
    }
  }
  static std::string text(const edgewise::Parameter& value) {
    if (auto b = std::get_if<bool>(&value)) return *b ? "1" : "0";
    if (auto i = std::get_if<int64_t>(&value)) return std::to_string(*i);
    if (auto d = std::get_if<double>(&value)) return std::to_string(*d);
    return std::get<std::string>(value);
  }
};

// ---- Text that is not whole yet

// whole returns how many bytes at the front of text end with a whole character; what can be none counts as whole.
size_t whole(const std::string& text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); back++) {
    auto c = static_cast<unsigned char>(text[text.size() - back]);
    if (c < 0x80) break;
    if (c >= 0xc0) return (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) > back ? text.size() - back : text.size();
  }
  return text.size();
}

// character returns the bytes of the UTF-8 character at a place, 0 when there is none.
size_t character(const std::string& text, size_t at) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  auto c = byte(at), next = byte(at + 1);
  if (c < 0x80) return 1;
  if (c < 0xc2 || c > 0xf4) return 0;
  size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
  if ((c == 0xe0 && next < 0xa0) || (c == 0xed && next > 0x9f) || (c == 0xf0 && next < 0x90) ||
      (c == 0xf4 && next > 0x8f))
    return 0;
  for (size_t i = 1; i < n; i++)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  return n;
}

// valid returns a text with U+FFFD for each byte that is part of no character: tokens may be any bytes.
std::string valid(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    auto n = character(text, at);
    out += n > 0 ? text.substr(at, n) : "\xef\xbf\xbd";
    at += std::max<size_t>(n, 1);
  }
  return out;
}

// begun returns how many bytes at the front of text cannot be the beginning of a stop string.
size_t begun(const std::string& text, const std::vector<std::string>& stops) {
  size_t safe = text.size();
  for (auto& stop : stops)
    for (size_t n = std::min(stop.size() - 1, text.size()); n > 0; n--)
      if (text.compare(text.size() - n, n, stop, 0, n) == 0) {
        safe = std::min(safe, text.size() - n);
        break;
      }
  return safe;
}

// ---- A request that is being answered

struct Generation {
  std::shared_ptr<Call> call;
  std::vector<llama::Token> prompt;
  std::vector<std::string> stops;
  bool stream = false;
  size_t most = 0;  // tokens to generate
  std::unique_ptr<llama::Sampler, void (*)(llama::Sampler*)> sampler{nullptr, nullptr};

  uint64_t arrival = 0;  // in the order of arrivals
  int32_t sequence = 0;  // llama.cpp's, and the index of its slot
  size_t read = 0;       // tokens of the prompt that have been decoded
  size_t generated = 0;  // tokens
  llama::Token next = 0;
  int32_t row = -1;  // of the step that is decoded, where its logits are
  std::string text;  // not sent yet
  const char* finished = nullptr;

  // decoded returns how many tokens have been decoded before next.
  size_t decoded() const { return prompt.size() + generated - 1; }
  // add takes a token's text.
  void add(const std::string& piece) {
    size_t from = text.size();
    text += piece;
    for (auto& stop : stops) {
      auto at = text.find(stop, from > stop.size() ? from - stop.size() : 0);
      if (at == text.npos) continue;
      text.resize(at);
      finished = "stop";
    }
  }
  // ready returns how many bytes of text can be sent.
  size_t ready() const {
    if (finished) return text.size();
    if (!stream) return 0;
    return whole(text.substr(0, begun(text, stops)));
  }
  // can_send tells whether the client has room for what the next step makes.
  bool can_send() const { return call->can_respond(text.size() + 4096); }
  void send() {
    auto n = ready();
    if (n == 0 && !finished) return;
    auto response = call->respond({Output::strings("text_output", {1}, {valid(text.substr(0, n))})});
    text.erase(0, n);
    if (finished) {
      response.parameters["prompt_tokens"] = static_cast<int64_t>(prompt.size());
      response.parameters["completion_tokens"] = static_cast<int64_t>(generated);
      response.parameters["finish_reason"] = std::string(finished);
    }
    response.send(finished != nullptr);
  }
};

// Step is what llama.cpp decodes at once.
class Step {
 public:
  explicit Step(size_t most) : most_(most) {
    for (auto list : {&tokens_, &positions_, &sequences_}) list->reserve(most);  // pointers into them stay valid
  }
  bool empty() const { return tokens_.empty(); }
  bool room() const { return tokens_.size() < most_; }
  bool has(int32_t sequence) const {
    return std::find(sequences_.begin(), sequences_.end(), sequence) != sequences_.end();
  }
  // add returns the row of the token's logits, -1 when they are not wanted.
  int32_t add(llama::Token token, size_t position, int32_t sequence, bool logits) {
    tokens_.push_back(token);
    positions_.push_back(static_cast<int32_t>(position));
    sequences_.push_back(sequence);
    pointers_.push_back(&sequences_.back());
    counts_.push_back(1);
    logits_.push_back(logits);
    return logits ? static_cast<int32_t>(tokens_.size() - 1) : -1;
  }
  llama::Batch get() {
    return {static_cast<int32_t>(tokens_.size()),
            tokens_.data(),
            nullptr,
            positions_.data(),
            counts_.data(),
            pointers_.data(),
            logits_.data()};
  }

 private:
  size_t most_;
  std::vector<int32_t> tokens_, positions_, sequences_, counts_;
  std::vector<int32_t*> pointers_;
  std::vector<int8_t> logits_;
};

// ---- The model

class Text : public edgewise::Model {
 public:
  explicit Text(const edgewise::Start& start);
  ~Text() override;
  std::string signature() override;
  void execute(const edgewise::Batch& batch) override;
  void changed() override {
    std::lock_guard<std::mutex> lock(lock_);
    changes_++;
    changed_.notify_all();
  }
  uint64_t memory() override { return runtime_.size(model_.get()); }

 private:
  std::string note() const;

  llama::Runtime runtime_;
  std::unique_ptr<llama::Model, void (*)(llama::Model*)> model_;
  std::unique_ptr<llama::Context, void (*)(llama::Context*)> context_;
  const llama::Vocabulary* vocabulary_ = nullptr;
  size_t sequence_tokens_ = 0, step_tokens_ = 0, default_tokens_ = 0;

  std::mutex lock_;
  std::condition_variable changed_;
  uint64_t changes_ = 0;
  bool stopped_ = false;
  std::vector<std::unique_ptr<Generation>> slots_;  // admit fills them; after that only the thread touches a generation
  std::thread thread_;

  std::unique_ptr<Generation> prepare(const std::shared_ptr<Call>& call) const;
  std::string prompt(const Call& call, const Options& options) const;
  void sampler(Generation& g, const Options& options) const;
  void admit(std::unique_ptr<Generation> generation);

  void run();
  bool step();
  bool end(Generation& g);
  void advance(Generation& g, int32_t row);
  std::string piece(llama::Token token) const;
};

std::string own_folder() {
  std::array<char, 4096> path{};
  auto n = readlink("/proc/self/exe", path.data(), path.size());
  if (n <= 0) throw std::runtime_error("/proc/self/exe cannot be read");
  std::string name(path.data(), static_cast<size_t>(n));
  return name.substr(0, name.rfind('/'));
}

// setting reads a parameter of the configuration, a whole number.
int64_t setting(const edgewise::Start& start, const char* name, int64_t otherwise, int64_t least, int64_t most) {
  auto& text = start.all["configuration"]["parameters"][name]["string_value"];
  auto value = text.integer(text.null() ? otherwise : least - 1);
  if (value < least || value > most)
    throw Error(Code::InvalidArgument, std::string("the parameter ") + name + " is not a number from " +
                                           std::to_string(least) + " to " + std::to_string(most));
  return value;
}

void log_line(int level, const char* text, void*) {
  if (level != 3 && level != 4) return;  // neither a warning nor an error
  std::string line(text);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  try {
    edgewise::server().log(level == 4 ? 3 : 2, line);
  } catch (const Error&) {  // the server has gone
  }
}

Text::Text(const edgewise::Start& start)
    : runtime_(own_folder()), model_(nullptr, runtime_.free_model), context_(nullptr, runtime_.free_context) {
  runtime_.log(log_line, nullptr);
  runtime_.load_plugins(own_folder().c_str());
  runtime_.begin();
  auto file = start.directory + "/" + start.all["configuration"]["default_model_filename"].text("model.gguf");
  if (access(file.c_str(), R_OK) != 0) throw Error(Code::NotFound, "the file model.gguf is missing");
  model_.reset(runtime_.load(file.c_str(), runtime_.model_defaults()));
  if (!model_) throw Error(Code::InvalidArgument, "llama.cpp cannot load this file: its messages are in the log");
  if (runtime_.has_encoder(model_.get())) throw Error(Code::Unsupported, "models with an encoder are not supported");
  vocabulary_ = runtime_.vocabulary(model_.get());

  auto trained = std::max<int64_t>(runtime_.trained_tokens(model_.get()), 16);
  auto sequences = setting(start, "max_num_seqs", 4, 1, 64);
  sequence_tokens_ =
      static_cast<size_t>(setting(start, "max_model_len", std::min<int64_t>(trained, 4096), 16, 1 << 20));
  default_tokens_ = static_cast<size_t>(setting(start, "max_tokens", 16, 1, 1 << 20));
  step_tokens_ = static_cast<size_t>(setting(start, "batch_tokens", 256, sequences, 4096));
  auto p = runtime_.context_defaults();
  p.set<uint32_t>(llama::context_tokens, static_cast<uint32_t>(sequence_tokens_ * static_cast<size_t>(sequences)));
  p.set<uint32_t>(llama::batch_tokens, static_cast<uint32_t>(step_tokens_));
  p.set<uint32_t>(llama::step_tokens, static_cast<uint32_t>(step_tokens_));
  p.set<uint32_t>(llama::sequences, static_cast<uint32_t>(sequences));
  auto threads = static_cast<int32_t>(std::max<int64_t>(start.threads, 1));
  p.set<int32_t>(llama::threads, threads);
  p.set<int32_t>(llama::batch_threads, threads);
  context_.reset(runtime_.make_context(model_.get(), p));
  if (!context_)
    throw Error(Code::Unavailable, "llama.cpp cannot make a context of " + std::to_string(sequences) +
                                       " sequences of " + std::to_string(sequence_tokens_) + " tokens");
  sequence_tokens_ = std::min<size_t>(sequence_tokens_, runtime_.sequence_tokens(context_.get()));
  slots_.resize(static_cast<size_t>(sequences));
  thread_ = std::thread([this] { run(); });
}

Text::~Text() {
  {
    std::lock_guard<std::mutex> lock(lock_);
    stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::string Text::signature() {
  auto tensor = [](const char* name, const char* type, const char* dims, bool optional) {
    return std::string("{\"name\":\"") + name + "\",\"data_type\":\"TYPE_" + type + "\",\"dims\":[" + dims + "]" +
           (optional ? ",\"optional\":true}" : "}");
  };
  std::string inputs = tensor("text_input", "STRING", "1", false);
  for (auto& [name, type] : std::vector<std::pair<const char*, const char*>>{{"stream", "BOOL"},
                                                                             {"max_tokens", "INT32"},
                                                                             {"temperature", "FP32"},
                                                                             {"top_k", "INT32"},
                                                                             {"top_p", "FP32"},
                                                                             {"seed", "UINT64"},
                                                                             {"sampling_parameters", "STRING"}})
    inputs += "," + tensor(name, type, "1", true);
  inputs += "," + tensor("stop", "STRING", "-1", true);
  return "{\"inputs\":[" + inputs + "],\"outputs\":[" + tensor("text_output", "STRING", "1", false) +
         "],\"max_batch_size\":0,\"decoupled\":true,\"note\":" + edgewise::Json::quote(note()) + "}";
}

// note says what runs the model.
std::string Text::note() const {
  char kind[128] = "";
  runtime_.describe(model_.get(), kind, sizeof kind);
  std::string text = std::string("llama.cpp ") + runtime_.version() + ", " + kind;
  for (size_t i = 0; i < runtime_.devices(); i++)
    text += (i ? ", " : " on ") + std::string(runtime_.device_description(runtime_.device(i)));
  return text;
}

// ---- From a call to a generation

void Text::execute(const edgewise::Batch& batch) {
  for (auto& call : batch.calls) {
    try {
      admit(prepare(call));
    } catch (const Error& error) {
      call->fail(error);
    }
  }
}

// admit waits for a free sequence: until then the server keeps what comes next, in its order.
void Text::admit(std::unique_ptr<Generation> g) {
  std::unique_lock<std::mutex> lock(lock_);
  for (;;) {
    if (stopped_ || g->call->cancelled()) throw Error(Code::Cancelled, "the request was cancelled");
    auto slot = std::find(slots_.begin(), slots_.end(), nullptr);
    if (slot != slots_.end()) {
      g->sequence = static_cast<int32_t>(slot - slots_.begin());
      g->arrival = changes_;
      *slot = std::move(g);
      break;
    }
    changed_.wait(lock);
  }
  changes_++;
  changed_.notify_all();
}

std::unique_ptr<Generation> Text::prepare(const std::shared_ptr<Call>& call) const {
  auto g = std::make_unique<Generation>();
  g->call = call;
  Options options(*call);
  auto text = prompt(*call, options);
  auto length = static_cast<int32_t>(std::min<size_t>(text.size(), INT32_MAX / 2));
  g->prompt.resize(text.size() + 8);
  auto n = runtime_.tokenize(vocabulary_, text.data(), length, g->prompt.data(), static_cast<int32_t>(g->prompt.size()),
                             true, true);
  if (n < 0) throw Error(Code::InvalidArgument, "the text cannot be turned into tokens");
  g->prompt.resize(static_cast<size_t>(n));
  if (g->prompt.empty()) throw Error(Code::InvalidArgument, "the text is empty");
  if (g->prompt.size() >= sequence_tokens_)
    throw Error(Code::InvalidArgument, "the text has " + std::to_string(n) +
                                           " tokens, and the model takes fewer than " +
                                           std::to_string(sequence_tokens_));
  g->most = static_cast<size_t>(options.real("max_tokens", static_cast<double>(default_tokens_), 1, 1 << 30));
  g->stream = options.real("stream", 1, 0, 1) != 0;
  g->stops = options.strings("stop");
  if (g->stops.size() > 16) throw Error(Code::InvalidArgument, "more than 16 strings in stop");
  sampler(*g, options);
  call->release_inputs();
  return g;
}

// prompt returns the text to go on from: text_input, or a conversation in the model's own form.
std::string Text::prompt(const Call& call, const Options& options) const {
  auto conversation = options.find("messages");
  if (conversation.empty()) {
    auto list = call.input("text_input").strings();
    if (list.size() != 1) throw Error(Code::InvalidArgument, "text_input does not have one element");
    return std::string(list.front());
  }
  std::vector<std::pair<std::string, std::string>> said;
  auto json = Json::parse(conversation);
  for (auto& item : json.items()) {
    std::string content = item["content"].text();
    for (auto& part : item["content"].items()) content += part["text"].text();
    said.emplace_back(item["role"].text("user"), std::move(content));
  }
  std::vector<llama::Message> messages;
  size_t bytes = 1024;
  for (auto& [role, content] : said) {
    messages.push_back({role.c_str(), content.c_str()});
    bytes += role.size() + content.size() + 256;
  }
  auto form = runtime_.chat_template(model_.get(), nullptr);
  std::string text(bytes, '\0');
  auto n = runtime_.apply_template(form ? form : "chatml", messages.data(), messages.size(), true, text.data(),
                                   static_cast<int32_t>(text.size()));
  if (n < 0) throw Error(Code::Unsupported, "llama.cpp's library does not know the model's template of conversations");
  text.resize(std::min(text.size(), static_cast<size_t>(n)));
  return text;
}

void Text::sampler(Generation& g, const Options& options) const {
  auto temperature = static_cast<float>(options.real("temperature", 1, 0, 100));
  auto top_k = static_cast<int32_t>(options.real("top_k", 0, -1, 1 << 30));
  auto top_p = static_cast<float>(options.real("top_p", 1, 0, 1));
  auto seed = options.find("seed");
  g.sampler = {runtime_.chain(true), runtime_.free_sampler};
  if (temperature == 0 || top_k == 1) {
    runtime_.add(g.sampler.get(), runtime_.greedy());
    return;
  }
  if (top_k > 0) runtime_.add(g.sampler.get(), runtime_.top_k(top_k));
  if (top_p < 1) runtime_.add(g.sampler.get(), runtime_.top_p(top_p, 1));
  runtime_.add(g.sampler.get(), runtime_.temperature(temperature));
  auto number = seed.empty() ? std::random_device()() : static_cast<uint32_t>(std::strtoull(seed.c_str(), nullptr, 10));
  runtime_.add(g.sampler.get(), runtime_.choose(number));
}

// ---- The loop that decodes

void Text::run() {
  for (;;) {
    std::unique_lock<std::mutex> lock(lock_);
    auto seen = changes_;
    if (stopped_) return;
    lock.unlock();
    if (step()) continue;
    lock.lock();
    changed_.wait(lock, [&] { return stopped_ || changes_ != seen; });
  }
}

// step decodes a token of each generation, and what fits of the prompts of new ones; false: nothing can be done now.
bool Text::step() {
  std::vector<Generation*> active;
  {
    std::lock_guard<std::mutex> lock(lock_);
    for (auto& g : slots_)
      if (g) active.push_back(g.get());
  }
  std::sort(active.begin(), active.end(), [](auto a, auto b) { return a->arrival < b->arrival; });
  auto over = std::remove_if(active.begin(), active.end(), [this](Generation* g) { return end(*g); });
  bool ended = over != active.end();
  active.erase(over, active.end());

  Step batch(step_tokens_);
  for (auto g : active)  // those that generate come first: a long prompt does not hold them up
    if (g->read == g->prompt.size() && !g->finished && g->can_send())
      g->row = batch.add(g->next, g->decoded(), g->sequence, true);
  for (auto g : active)
    for (; g->read < g->prompt.size() && batch.room(); g->read++)
      g->row = batch.add(g->prompt[g->read], g->read, g->sequence, g->read + 1 == g->prompt.size());
  if (batch.empty()) return ended;
  auto failed = runtime_.decode(context_.get(), batch.get());
  for (auto g : active)
    if (auto row = std::exchange(g->row, -1); failed != 0 && batch.has(g->sequence))
      g->call->fail(Error(Code::Internal, "llama.cpp could not decode: " + std::to_string(failed)));
    else if (row >= 0)
      advance(*g, row);
  return true;
}

// end ends a generation that is over, and makes room for the next one.
bool Text::end(Generation& g) {
  try {
    if (g.call->cancelled()) throw Error(Code::Cancelled, "the request was cancelled");
    if (!g.call->ended()) {
      if (!g.finished || !g.can_send()) return false;
      g.send();
    }
  } catch (const Error& error) {
    g.call->fail(error);
  }
  runtime_.forget(runtime_.memory(context_.get()), g.sequence, -1, -1);
  std::lock_guard<std::mutex> lock(lock_);
  slots_[static_cast<size_t>(g.sequence)].reset();
  changed_.notify_all();
  return true;
}

// advance takes the token that follows, and sends what it completes.
void Text::advance(Generation& g, int32_t row) {
  g.next = runtime_.sample(g.sampler.get(), context_.get(), row);
  if (runtime_.ends(vocabulary_, g.next)) {
    g.finished = "stop";
    return;
  }
  g.generated++;
  g.add(piece(g.next));
  if (!g.finished && (g.generated >= g.most || g.decoded() >= sequence_tokens_)) g.finished = "length";
  try {
    if (!g.finished) g.send();  // the last response is sent by end
  } catch (const Error& error) {
    g.call->fail(error);
  }
}

std::string Text::piece(llama::Token token) const {
  std::array<char, 1024> buffer{};
  auto n = runtime_.piece(vocabulary_, token, buffer.data(), buffer.size(), 0, false);
  return std::string(buffer.data(), static_cast<size_t>(std::max(n, 0)));
}

}  // namespace

int main() {
  return edgewise::serve([](const edgewise::Start& start) { return std::make_unique<Text>(start); });
}
