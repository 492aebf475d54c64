// A minimal inference server on fastify and onnxruntime-node, as one writes it: what the appliance is held against.
//
//   node server.mjs MODEL INPUT TYPE OUTPUT WIDTHS WORKERS THREADS
//
// TYPE is FP32 or UINT8. WIDTHS are the sizes of a tensor without its batch, as 3,224,224. With more than one worker the processes share the port
// (cluster). POST /v2 takes and answers a v2 request with binary tensors, POST /json one in JSON, which is written by a
// compiled schema. POST /bare takes nothing but the bytes of the tensor and answers with those of the output.
import cluster from 'node:cluster'
import fastify from 'fastify'
import ort from 'onnxruntime-node'

const [model, input, type, output, widths, workers, threads] = process.argv.slice(2)
const shape = widths.split(',').map(Number)
const [Elements, elementType] = type === 'UINT8' ? [Uint8Array, 'uint8'] : [Float32Array, 'float32']
const elements = shape.reduce((a, b) => a * b, 1)

const answerSchema = {
	type: "object",
	properties: {
		model_name: { type: "string" },
		outputs: {
			type: "array",
			items: {
				type: "object",
				properties: {
					name: { type: "string" },
					datatype: { type: "string" },
					shape: { type: "array", items: { type: "integer" } },
					data: { type: "array", items: { type: "number" } },
				},
			},
		},
	},
}

if (cluster.isPrimary && Number(workers) > 1) {
	let listening = 0
	cluster.on('listening', (_, address) => {
		if (++listening === Number(workers)) console.log(`listening on 127.0.0.1:${address.port}`)
	})
	cluster.on('exit', () => process.exit(1))
	for (let i = 0; i < Number(workers); i++) cluster.fork()
} else {
	await serve()
}

// numbers are those in a part of a body, in place where they are aligned.
function numbers(body) {
	const length = body.length / Elements.BYTES_PER_ELEMENT
	if (body.byteOffset % Elements.BYTES_PER_ELEMENT === 0) return new Elements(body.buffer, body.byteOffset, length)
	return new Elements(body.buffer.slice(body.byteOffset, body.byteOffset + body.length))
}

function bytes(array) {
	return Buffer.from(array.buffer, array.byteOffset, array.byteLength)
}

async function serve() {
	const session = await ort.InferenceSession.create(model, {
		intraOpNumThreads: Number(threads), interOpNumThreads: 1, executionMode: 'sequential', graphOptimizationLevel: 'all',
	})
	const infer = async (data) => {
		const tensor = new ort.Tensor(elementType, data, [data.length / elements, ...shape])
		return (await session.run({ [input]: tensor }, [output]))[output]
	}
	const app = fastify({ logger: false, bodyLimit: 64 << 20 })
	app.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_, body, done) => done(null, body))
	app.post('/v2', async (request, reply) => {
		const length = Number(request.headers['inference-header-content-length'])
		const head = JSON.parse(request.body.toString('utf8', 0, length))
		const size = head.inputs[0].parameters.binary_data_size
		const result = await infer(numbers(request.body.subarray(length, length + size)))
		const data = bytes(result.data)
		const answer = Buffer.from(JSON.stringify({ model_name: 'model', model_version: '1', outputs: [
			{ name: output, datatype: 'FP32', shape: result.dims, parameters: { binary_data_size: data.length } },
		] }))
		reply.type('application/octet-stream').header('inference-header-content-length', answer.length)
		return Buffer.concat([answer, data])
	})
	app.post('/bare', async (request, reply) => {
		const result = await infer(numbers(request.body))
		reply.type('application/octet-stream')
		return bytes(result.data)
	})
	app.post('/json', { schema: { response: { 200: answerSchema } } }, async (request) => {
		const result = await infer(Elements.from(request.body.inputs[0].data))
		return { model_name: 'model', outputs: [{ name: output, datatype: 'FP32', shape: result.dims, data: Array.from(result.data) }] }
	})
	const address = await app.listen({ port: 0, host: '127.0.0.1' })
	if (cluster.isPrimary) console.log(`listening on ${new URL(address).host}`)
}
