// Asks the server at argv[2] as any Node.js program would, and prints what it was told, one line of JSON each.
const path = require("path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const definition = loader.loadSync(path.join(__dirname, "serving.proto"), { keepCase: true, longs: Number });
const { PredictionService, ModelService } = grpc.loadPackageDefinition(definition).tensorflow.serving;
const [target] = process.argv.slice(2);
const prediction = new PredictionService(target, grpc.credentials.createInsecure());
const model = new ModelService(target, grpc.credentials.createInsecure());

const FLOAT = 1;
const STRING = 7;

function call(client, method, request) {
  const options = { deadline: Date.now() + 20000 };
  return new Promise((resolve) => {
    client[method](request, options, (error, answer) => {
      const said = error ? { code: grpc.status[error.code], details: error.details } : answer;
      console.log(JSON.stringify(said, (_, value) => (value && value.type === "Buffer" ? "" : value)));
      resolve(answer);
    });
  });
}

async function main() {
  const x = { dtype: FLOAT, tensor_shape: { dim: [{ size: 3 }] }, float_val: [1, 2, 5] };
  await call(prediction, "Predict", { model_spec: { name: "half" }, inputs: { x } });
  await call(prediction, "Predict", { model_spec: { name: "other" }, inputs: { x } });
  await call(prediction, "Predict", {
    model_spec: { name: "half" },
    inputs: { x: { dtype: STRING, tensor_shape: {}, string_val: [Buffer.from("x")] } },
  });
  await call(model, "GetModelStatus", { model_spec: { name: "half" } });
  prediction.close();
  model.close();
}

main();
