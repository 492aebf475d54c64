// A backend of two models, to begin with: the file that backend.yaml names says which one a version is.
//   add_sub   INPUT0, INPUT1 (FP32, any shape) -> OUTPUT0 their sum, OUTPUT1 their difference
//   repeat    IN (INT32[-1]), DELAY (UINT32[-1], milliseconds) -> one response for each element of IN: OUT, IDX;
//   decoupled
#include <chrono>
#include <fstream>

#include "edgewise_backend.hpp"

using edgewise::Call;
using edgewise::Code;
using edgewise::Error;
using edgewise::Output;
using edgewise::Type;

struct AddSub : edgewise::Model {
  void execute(const edgewise::Batch& batch) override {
    for (auto& call : batch.calls) {
      try {
        answer(*call);
      } catch (const Error& error) {  // the others of the batch are answered all the same
        call->fail(error);
      }
    }
  }

  static void answer(Call& call) {
    auto &a = call.input("INPUT0"), &b = call.input("INPUT1");
    auto x = a.as<float>(), y = b.as<float>();
    if (a.shape != b.shape) throw Error(Code::InvalidArgument, "INPUT0 and INPUT1 have different shapes");
    std::vector<Output> outputs;
    for (auto name : {"OUTPUT0", "OUTPUT1"})
      if (call.wants(name)) outputs.push_back({name, Type::FP32, a.shape});
    auto response = call.respond(outputs);
    for (size_t o = 0; o < outputs.size(); o++) {
      float sign = outputs[o].name == "OUTPUT0" ? 1 : -1, *out = response.as<float>(o);
      for (uint64_t i = 0; i < a.size / sizeof *x; i++) out[i] = x[i] + sign * y[i];
    }
    response.send(true);
  }
};

// Repeat answers on a thread of its own for each request, so that the next batch can come.
struct Repeat : edgewise::Model {
  std::vector<std::thread> threads;

  std::string signature() override { return "{\"decoupled\":true}"; }
  ~Repeat() override {
    for (auto& thread : threads) thread.join();
  }

  void execute(const edgewise::Batch& batch) override {
    for (auto& call : batch.calls) {
      auto &in = call->input("IN"), &delay = call->input("DELAY");
      std::vector<int32_t> values(in.as<int32_t>(), in.as<int32_t>() + in.size / 4);
      std::vector<uint32_t> delays(delay.as<uint32_t>(), delay.as<uint32_t>() + delay.size / 4);
      if (values.size() != delays.size()) throw Error(Code::InvalidArgument, "IN and DELAY have different sizes");
      call->release_inputs();
      threads.emplace_back([call = call, values, delays] { repeat(*call, values, delays); });
    }
  }

  static void repeat(Call& call, const std::vector<int32_t>& values, const std::vector<uint32_t>& delays) {
    try {
      for (uint32_t i = 0; i < values.size(); i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(delays[i]));
        auto response = call.respond({{"OUT", Type::Int32, {1}}, {"IDX", Type::UInt32, {1}}});
        *response.as<int32_t>(0) = values[i];
        *response.as<uint32_t>(1) = i;
        response.send(false);
      }
      call.end();
    } catch (const Error& error) {
      call.fail(error);
    }
  }
};

int main() {
  return edgewise::serve([](const edgewise::Start& start) -> std::unique_ptr<edgewise::Model> {
    std::string name;
    std::ifstream(start.directory + "/model.txt") >> name;
    if (name == "add_sub") return std::make_unique<AddSub>();
    if (name == "repeat") return std::make_unique<Repeat>();
    throw Error(Code::InvalidArgument, "model.txt says neither add_sub nor repeat: " + name);
  });
}
