// What backends/llama calls in llama.cpp 0.5.0, as the npm package @node-llama-cpp/linux-x64 (and -arm64) 3.22.1 has
// it. The package has no header, and takes its parameters by value: a library whose parameters are laid out differently
// would read nonsense. So their defaults are compared at start, byte for byte, with what they are known to be.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace llama {

struct Model;
struct Context;
struct Vocabulary;
struct Memory;
struct Sampler;
using Token = int32_t;

// Batch is passed by value; only rows with a mark in logits have logits afterwards.
struct Batch {
  int32_t count;
  Token* tokens;
  float* embeddings;
  int32_t* positions;
  int32_t* sequence_counts;
  int32_t** sequences;
  int8_t* logits;
};

struct Message {
  const char* role;
  const char* content;
};

// Parameters are a structure of which a few fields are known by their place.
template <size_t N>
struct alignas(8) Parameters {
  unsigned char bytes[N];

  template <typename T>
  T get(size_t at) const {
    T value;
    std::memcpy(&value, bytes + at, sizeof value);
    return value;
  }
  template <typename T>
  void set(size_t at, T value) {
    static_assert(sizeof value <= 8);
    std::memcpy(bytes + at, &value, sizeof value);
  }
};
using ModelParameters = Parameters<80>;
using ContextParameters = Parameters<160>;

// Places in ContextParameters, and what the library has there by default.
constexpr size_t context_tokens = 0, batch_tokens = 4, step_tokens = 8, sequences = 12, threads = 28,
                 batch_threads = 32;

struct Runtime {
  void (*load_plugins)(const char* directory);
  size_t (*devices)();
  const void* (*device)(size_t);
  const char* (*device_description)(const void*);
  const char* (*version)();
  void (*log)(void (*)(int level, const char* text, void* data), void* data);
  void (*begin)();
  ModelParameters (*model_defaults)();
  ContextParameters (*context_defaults)();
  Model* (*load)(const char* path, ModelParameters);
  void (*free_model)(Model*);
  Context* (*make_context)(Model*, ContextParameters);
  void (*free_context)(Context*);
  const Vocabulary* (*vocabulary)(const Model*);
  int32_t (*trained_tokens)(const Model*);
  uint64_t (*size)(const Model*);
  int32_t (*describe)(const Model*, char* buffer, size_t length);
  bool (*has_encoder)(const Model*);
  const char* (*chat_template)(const Model*, const char* name);
  int32_t (*apply_template)(const char* text, const Message*, size_t count, bool assistant, char* buffer,
                            int32_t length);
  uint32_t (*sequence_tokens)(const Context*);
  Memory* (*memory)(const Context*);
  bool (*forget)(Memory*, int32_t sequence, int32_t from, int32_t to);
  int32_t (*decode)(Context*, Batch);
  int32_t (*tokenize)(const Vocabulary*, const char*, int32_t length, Token*, int32_t most, bool special, bool parse);
  int32_t (*piece)(const Vocabulary*, Token, char* buffer, int32_t length, int32_t strip, bool special);
  bool (*ends)(const Vocabulary*, Token);
  Sampler* (*chain)(bool unmeasured);
  void (*add)(Sampler* chain, Sampler*);
  Sampler* (*greedy)();
  Sampler* (*top_k)(int32_t);
  Sampler* (*top_p)(float, size_t least);
  Sampler* (*temperature)(float);
  Sampler* (*choose)(uint32_t seed);
  Token (*sample)(Sampler*, Context*, int32_t row);
  void (*free_sampler)(Sampler*);

  // Runtime loads the library from a folder. An exception says what is missing there, or not as expected.
  explicit Runtime(const std::string& folder) {
    void* ggml = open(folder + "/libggml.v0.5.0.so");
    void* lib = open(folder + "/libllama.v0.5.0.so");
    find(ggml, "ggml_backend_load_all_from_path", load_plugins);
    find(ggml, "ggml_backend_dev_count", devices);
    find(ggml, "ggml_backend_dev_get", device);
    find(ggml, "ggml_backend_dev_description", device_description);
    find(lib, "llama_version", version);
    find(lib, "llama_log_set", log);
    find(lib, "llama_backend_init", begin);
    find(lib, "llama_model_default_params", model_defaults);
    find(lib, "llama_context_default_params", context_defaults);
    find(lib, "llama_model_load_from_file", load);
    find(lib, "llama_model_free", free_model);
    find(lib, "llama_init_from_model", make_context);
    find(lib, "llama_free", free_context);
    find(lib, "llama_model_get_vocab", vocabulary);
    find(lib, "llama_model_n_ctx_train", trained_tokens);
    find(lib, "llama_model_size", size);
    find(lib, "llama_model_desc", describe);
    find(lib, "llama_model_has_encoder", has_encoder);
    find(lib, "llama_model_chat_template", chat_template);
    find(lib, "llama_chat_apply_template", apply_template);
    find(lib, "llama_n_ctx_seq", sequence_tokens);
    find(lib, "llama_get_memory", memory);
    find(lib, "llama_memory_seq_rm", forget);
    find(lib, "llama_decode", decode);
    find(lib, "llama_tokenize", tokenize);
    find(lib, "llama_token_to_piece", piece);
    find(lib, "llama_vocab_is_eog", ends);
    find(lib, "llama_sampler_chain_init", chain);
    find(lib, "llama_sampler_chain_add", add);
    find(lib, "llama_sampler_init_greedy", greedy);
    find(lib, "llama_sampler_init_top_k", top_k);
    find(lib, "llama_sampler_init_top_p", top_p);
    find(lib, "llama_sampler_init_temp", temperature);
    find(lib, "llama_sampler_init_dist", choose);
    find(lib, "llama_sampler_sample", sample);
    find(lib, "llama_sampler_free", free_sampler);
    check();
  }

 private:
  static void* open(const std::string& path) {
    if (void* lib = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return lib;
    throw std::runtime_error(std::string("llama.cpp's library cannot be loaded: ") + dlerror() +
                             " (make llama fetches it)");
  }
  template <typename F>
  static void find(void* lib, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(lib, name));
    if (!function) throw std::runtime_error(std::string("llama.cpp's library has no ") + name);
  }
  // check compares the version and the defaults with those of the release that the places above are of.
  void check() const {
    struct Field {
      size_t at;
      int32_t value;
    };
    if (std::string(version()).rfind("0.5.0", 0) != 0)
      throw std::runtime_error(std::string("llama.cpp is ") + version());
    auto m = model_defaults();
    for (auto f : {Field{16, -1}, Field{20, 1}, Field{24, -1}, Field{28, 1}, Field{72, 1 << 16}})
      same(m, f.at, f.value);
    for (size_t at : {0, 4, 8, 12, 40, 44, 48, 52, 56, 60, 64, 68}) same(m, at, 0);
    auto c = context_defaults();
    constexpr int32_t minus = INT32_MIN | 0x3f800000;  // -1.0
    for (auto f : {Field{context_tokens, 512}, Field{batch_tokens, 2048}, Field{step_tokens, 512}, Field{sequences, 1},
                   Field{24, 1}, Field{threads, 4}, Field{batch_threads, 4}, Field{36, 0}, Field{40, -1}, Field{44, -1},
                   Field{48, -1}, Field{52, -1}, Field{64, minus}, Field{76, minus}, Field{84, minus}, Field{104, 1},
                   Field{108, 1}, Field{128, 0x01010100}})
      same(c, f.at, f.value);
    for (size_t at : {16, 20, 56, 60, 80, 88, 96, 112, 120, 136, 144, 152}) same(c, at, 0);
  }
  template <typename P>
  static void same(const P& parameters, size_t at, int32_t value) {
    if (parameters.template get<int32_t>(at) != value)
      throw std::runtime_error("llama.cpp's parameters are laid out differently at byte " + std::to_string(at));
  }
};

}  // namespace llama
