// The identity of numbers in C++: the output is the input.
#include "../../../backends/cpp/edgewise_backend.hpp"

struct Identity : edgewise::Model {
  void execute(const edgewise::Batch& batch) override {
    for (auto& call : batch.calls) {
      auto& x = call->input("input");
      auto response = call->respond({{"output", x.type, x.shape}});
      std::memcpy(response.as<float>(0), x.data, x.size);
      response.send(true);
    }
  }
};

int main() {
  return edgewise::serve([](const edgewise::Start&) { return std::make_unique<Identity>(); });
}
