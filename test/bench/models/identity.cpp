// The identity of numbers in C++: the output is the input. Each response says how long the copy took.
#include <chrono>

#include "../../../backends/cpp/edgewise_backend.hpp"

struct Identity : edgewise::Model {
  void execute(const edgewise::Batch& batch) override {
    using clock = std::chrono::steady_clock;
    for (auto& call : batch.calls) {
      auto& x = call->input("input");
      auto response = call->respond({{"output", x.type, x.shape}});
      auto began = clock::now();
      std::memcpy(response.as<float>(0), x.data, x.size);
      int64_t took = std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - began).count();
      response.parameters["own_ns"] = took;
      response.send(true);
    }
  }
};

int main() {
  return edgewise::serve([](const edgewise::Start&) { return std::make_unique<Identity>(); });
}
