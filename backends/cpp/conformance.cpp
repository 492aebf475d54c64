// The conformance model of docs/backends.md, with which the kit in api/backend/conformance checks the header.
#include <chrono>

#include "edgewise_backend.hpp"

namespace {

using edgewise::Call;
using edgewise::Code;
using edgewise::Error;
using edgewise::Output;
using edgewise::Type;

std::string text(const Call& call, const char* name) {
  auto at = call.parameters.find(name);
  return at == call.parameters.end() ? "" : std::get<std::string>(at->second);
}

int64_t integer(const Call& call, const char* name) {
  auto at = call.parameters.find(name);
  return at == call.parameters.end() ? 0 : std::get<int64_t>(at->second);
}

void await_cancellation(const Call& call) {
  while (!call.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  throw Error(Code::Cancelled, "the request was cancelled");
}

void ask(const Call& call, bool decoupled, const std::function<void(const edgewise::Reply&)>& each) {
  edgewise::Execution execution;
  execution.model = text(call, "model");
  execution.inputs.push_back(Output::copy("X", call.input("X")));
  execution.decoupled = decoupled;
  edgewise::server().exec(std::move(execution), each, &call);
}

std::vector<Output> copies(const edgewise::Reply& reply) {
  std::vector<Output> outputs;
  for (auto& tensor : reply.outputs) outputs.push_back(Output::copy(tensor.name, tensor));
  return outputs;
}

void echo(Call& call) {
  std::vector<Output> outputs;
  for (auto [input, output] : {std::pair{"X", "Y"}, std::pair{"S", "T"}})
    if (auto tensor = call.find(input); tensor && call.wants(output)) outputs.push_back(Output::copy(output, *tensor));
  call.respond(outputs).send(true);
}

struct Conformance : edgewise::Model {
  bool decoupled;
  std::vector<std::thread> threads;

  explicit Conformance(bool d) : decoupled(d) {}
  ~Conformance() override {
    for (auto& thread : threads) thread.join();
  }
  void execute(const edgewise::Batch& batch) override {
    for (auto& call : batch.calls)
      if (decoupled)
        threads.emplace_back([call = call] { guard(*call, stream); });
      else
        guard(*call, one);
  }
  static void guard(Call& call, void (*answer)(Call&)) {
    try {
      answer(call);
    } catch (const Error& error) {
      call.fail(error);
    }
  }

  static void one(Call& call) {
    auto what = text(call, "do");
    if (what == "error") throw Error(Code::InvalidArgument, text(call, "message"));
    if (what == "wait") await_cancellation(call);
    if (what == "zeros") {
      auto response = call.respond({{"Y", Type::FP32, {1, integer(call, "count")}}});
      std::memset(response.as<float>(0), 0, static_cast<size_t>(integer(call, "count")) * sizeof(float));
      return response.send(true);
    }
    if (what == "parameters") {
      auto response = call.respond({});
      response.parameters = call.parameters;
      response.parameters["id"] = call.id;
      response.parameters["correlation"] = static_cast<int64_t>(call.correlation);
      response.parameters["flags"] = static_cast<int64_t>((call.sequence_start ? 1 : 0) | (call.sequence_end ? 2 : 0));
      response.parameters["timeout"] = static_cast<int64_t>(call.timeout_us);
      return response.send(true);
    }
    if (what == "exec")
      return ask(call, false, [&](const edgewise::Reply& reply) { call.respond(copies(reply)).send(true); });
    if (what == "log") edgewise::server().log(1, "conformance");
    if (what == "metric") {
      edgewise::server().metric(R"({"op":"family","family":"conformance_total","kind":"counter"})");
      edgewise::server().metric(R"({"op":"metric","family":"conformance_total"})");
      edgewise::server().metric(R"({"op":"increment","family":"conformance_total","value":2})");
    }
    echo(call);
  }

  static void stream(Call& call) {
    auto what = text(call, "do");
    if (what == "later") await_cancellation(call);
    if (what == "many")
      for (int64_t i = 0; i < integer(call, "count"); i++) {
        auto response = call.respond({{"Y", Type::FP32, {1, 1}}});
        *response.as<float>(0) = static_cast<float>(i);
        response.send(false);
      }
    if (what == "exec") ask(call, true, [&](const edgewise::Reply& reply) { call.respond(copies(reply)).send(false); });
    call.end();
  }
};

}  // namespace

int main() {
  return edgewise::serve([](const edgewise::Start& start) {
    return std::make_unique<Conformance>(start.all["configuration"]["model_transaction_policy"]["decoupled"].boolean());
  });
}
