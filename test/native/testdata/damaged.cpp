// Reads RUN, REPLY and START messages that were damaged at random, under the compiler's checks. What it reads it also
// uses: every byte of every tensor, each string. Only edgewise::Error may come of it.
#include <cstdio>
#include <random>

#include "../../../backends/cpp/edgewise_backend.hpp"

using namespace edgewise;

static std::string run_body() {
  Writer w(2);
  w.u64(7).u8(1).u16(2);
  for (uint64_t call = 0; call < 2; call++) {
    w.u64(call).str("id").u64(3).str("correlation").u32(3).u64(1).u64(1000);
    w.parameters({{"a", true}, {"b", int64_t{-1}}, {"c", 0.5}, {"d", std::string("text")}}).u16(1).str("Y").u16(2);
    w.tensor(Output{"X", Type::FP32, {2, 3}}, 64).tensor(Output::strings("S", {2}, {"ab", ""}), 128);
  }
  return w.frame().substr(5);
}

static void use(const std::vector<Tensor>& tensors, uint64_t& sum) {
  for (auto& tensor : tensors) {
    for (uint64_t i = 0; i < tensor.size; i++) sum += tensor.data[i];
    try {
      for (auto text : tensor.strings())
        sum += text.size() + (text.empty() ? 0 : static_cast<unsigned char>(text.back()));
    } catch (const Error&) {
    }
  }
}

int main(int, char** argv) {
  auto rounds = std::strtoul(argv[1], nullptr, 10);
  std::mt19937 random(23);
  Connection connection;
  connection.socket = -1;  // what a call sends when it is let go of fails
  std::vector<uint8_t> memory(4096);
  connection.input = memory.data();
  connection.input_bytes = memory.size();
  const std::string valid = run_body(),
                    json = R"({"model":"m\u00e9\ud83d\ude00","version":3,"a":[1,-2.5e3,true,null,{"b":"\n"}]})";
  uint64_t sum = 0, refused = 0;
  for (unsigned long round = 0; round < rounds; round++) {
    for (size_t i = 0; i < 200; i++) memory[i] = static_cast<uint8_t>(random() % 8 == 0 ? random() : 0);
    std::string body = valid, text = json;
    for (auto damaged : {&body, &text}) {
      for (auto n = random() % 4; n > 0; n--) (*damaged)[random() % damaged->size()] = static_cast<char>(random());
      if (random() % 4 == 0) damaged->resize(random() % damaged->size());
    }
    std::vector<uint8_t> exact(body.begin(), body.end());  // on the heap, so that one byte beyond is seen
    try {
      Reader reader(exact.data(), exact.size());
      reader.u64();
      reader.u8();
      for (auto n = reader.u16(); n > 0; n--)
        use(std::make_shared<Call>(connection, reader, std::make_shared<Block>(Block{connection, no_block}),
                                   std::make_shared<edgewise::Progress>())
                ->inputs,
            sum);
      reader.end();
    } catch (const Error&) {
      refused++;
    }
    try {
      std::unique_ptr<char[]> copy(new char[text.size() + 1]);
      std::memcpy(copy.get(), text.data(), text.size());
      auto value = Json::parse(std::string_view(copy.get(), text.size()));
      sum += value["model"].text().size() + static_cast<uint64_t>(value["version"].integer());
    } catch (const Error&) {
      refused++;
    }
  }
  std::printf("%lu rounds, %lu refused, %lx\n", rounds, static_cast<unsigned long>(refused),
              static_cast<unsigned long>(sum));
  return refused > rounds / 2 ? 0 : 1;
}
