// A minimal inference server on fastify and onnxruntime-node, as one writes it: what the appliance is held against.
//
//   node server.mjs MODEL INPUT OUTPUT WIDTHS WORKERS THREADS
//
// WIDTHS are the sizes of a tensor without its batch, as 3x224x224. With more than one worker the processes share the port
// (cluster). POST /binary takes the bare bytes of one FP32 tensor and answers with those of the output: it has no JSON part
// to read, as the v2 protocol has. POST /json takes and answers v2 JSON, checked and written by compiled schemas.
import cluster from 'node:cluster'
import fastify from 'fastify'
import ort from 'onnxruntime-node'

const [model, input, output, widths, workers, threads] = process.argv.slice(2)
const shape = widths.split('x').map(Number)
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
		if (++listening === Number(workers)) console.log(`listening on ${address.port}`)
	})
	cluster.on('exit', () => process.exit(1))
	for (let i = 0; i < Number(workers); i++) cluster.fork()
} else {
	await serve()
}

async function serve() {
	const session = await ort.InferenceSession.create(model, {
		intraOpNumThreads: Number(threads), interOpNumThreads: 1, executionMode: 'sequential', graphOptimizationLevel: 'all',
	})
	const infer = async (data) => {
		const tensor = new ort.Tensor('float32', data, [data.length / elements, ...shape])
		return (await session.run({ [input]: tensor }, [output]))[output]
	}
	const app = fastify({ logger: false, bodyLimit: 64 << 20 })
	app.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_, body, done) => done(null, body))
	app.post('/binary', async (request, reply) => {
		const body = request.body
		const data = body.byteOffset % 4 === 0
			? new Float32Array(body.buffer, body.byteOffset, body.length / 4)
			: new Float32Array(body.buffer.slice(body.byteOffset, body.byteOffset + body.length))
		const result = await infer(data)
		reply.type('application/octet-stream')
		return Buffer.from(result.data.buffer, result.data.byteOffset, result.data.byteLength)
	})
	app.post('/json', { schema: { response: { 200: answerSchema } } }, async (request) => {
		const result = await infer(Float32Array.from(request.body.inputs[0].data))
		return { model_name: 'model', outputs: [{ name: output, datatype: 'FP32', shape: result.dims, data: Array.from(result.data) }] }
	})
	const address = await app.listen({ port: 0, host: '127.0.0.1' })
	if (cluster.isPrimary) console.log(`listening on ${new URL(address).port}`)
}
