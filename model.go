package edgewise

// Model is what its author declares, in the field names and defaults of Triton's ModelConfig, which is the one schema
// for config.pbtxt, YAML and JSON. It is validated and completed when it is read and never changed afterwards. Its JSON
// form is the answer to "GET /v2/models/M/config": scalars are present at their default, lists are never null.
//
// Source: the ModelConfig message of the inference protocol's model configuration.
type Model struct {
	Name                 string                `json:"name"`
	Platform             string                `json:"platform"`
	Backend              string                `json:"backend"`
	Runtime              string                `json:"runtime"`
	VersionPolicy        *VersionPolicy        `json:"version_policy,omitempty"`
	MaxBatchSize         int32                 `json:"max_batch_size"` // 0: no batching, shapes are exactly Dims
	Input                []ModelInput          `json:"input"`
	Output               []ModelOutput         `json:"output"`
	BatchInput           []BatchInput          `json:"batch_input"`
	BatchOutput          []BatchOutput         `json:"batch_output"`
	Optimization         *Optimization         `json:"optimization,omitempty"`
	DynamicBatching      *DynamicBatching      `json:"dynamic_batching,omitempty"`  // at most one of these three
	SequenceBatching     *SequenceBatching     `json:"sequence_batching,omitempty"` // is set
	EnsembleScheduling   *EnsembleScheduling   `json:"ensemble_scheduling,omitempty"`
	InstanceGroup        []InstanceGroup       `json:"instance_group"`
	DefaultModelFilename string                `json:"default_model_filename"`
	CCModelFilenames     map[string]string     `json:"cc_model_filenames"`
	MetricTags           map[string]string     `json:"metric_tags"`
	Parameters           map[string]ModelParam `json:"parameters"`
	ModelWarmup          []ModelWarmup         `json:"model_warmup"`
	ModelOperations      *struct {             // libraries of custom operators
		OpLibraryFilename []string `json:"op_library_filename"`
	} `json:"model_operations,omitempty"`
	ModelTransactionPolicy *ModelTransactionPolicy `json:"model_transaction_policy,omitempty"`
	ModelRepositoryAgents  *ModelRepositoryAgents  `json:"model_repository_agents,omitempty"`
	ResponseCache          *Switch                 `json:"response_cache,omitempty"`
	ModelMetrics           *struct {
		MetricControl []MetricControl `json:"metric_control"`
	} `json:"model_metrics,omitempty"`
}

// VersionPolicy says which versions are served. Exactly one field is set; the default is the latest one.
type VersionPolicy struct {
	Latest   *LatestVersions   `json:"latest,omitempty"`
	All      *struct{}         `json:"all,omitempty"`
	Specific *SpecificVersions `json:"specific,omitempty"`
}

// LatestVersions serves the NumVersions highest versions.
type LatestVersions struct {
	NumVersions uint32 `json:"num_versions"`
}

// SpecificVersions serves the listed versions.
type SpecificVersions struct {
	Versions []int64 `json:"versions"`
}

// ModelInput declares an input. Dims leave out the batch dimension when MaxBatchSize is above 0.
type ModelInput struct {
	Name                string       `json:"name"`
	DataType            DataType     `json:"data_type"`
	Format              TensorFormat `json:"format"`
	Dims                Shape        `json:"dims"`
	Reshape             *Reshape     `json:"reshape,omitempty"`
	IsShapeTensor       bool         `json:"is_shape_tensor"`
	AllowRaggedBatch    bool         `json:"allow_ragged_batch"`
	Optional            bool         `json:"optional"`
	IsNonLinearFormatIO bool         `json:"is_non_linear_format_io"`
}

// ModelOutput declares an output. Dims leave out the batch dimension when MaxBatchSize is above 0.
type ModelOutput struct {
	Name                string   `json:"name"`
	DataType            DataType `json:"data_type"`
	Dims                Shape    `json:"dims"`
	Reshape             *Reshape `json:"reshape,omitempty"`
	LabelFilename       string   `json:"label_filename"`
	IsShapeTensor       bool     `json:"is_shape_tensor"`
	IsNonLinearFormatIO bool     `json:"is_non_linear_format_io"`
}

// Reshape is the shape the backend sees where clients see Dims: as many elements, as many -1.
type Reshape struct {
	Shape Shape `json:"shape"`
}

// BatchInput is an input that the server makes from the batch.
type BatchInput struct {
	Kind        string   `json:"kind"`
	TargetName  []string `json:"target_name"`
	DataType    DataType `json:"data_type"`
	SourceInput []string `json:"source_input"`
}

// BatchOutput is an output that the server scatters over the batch.
type BatchOutput struct {
	TargetName  []string `json:"target_name"`
	Kind        string   `json:"kind"`
	SourceInput []string `json:"source_input"`
}

// InstanceGroup places Count instances on the CPU or on each of GPUs.
type InstanceGroup struct {
	Name             string            `json:"name"`
	Kind             InstanceKind      `json:"kind"`
	Count            int32             `json:"count"`
	RateLimiter      *RateLimiter      `json:"rate_limiter,omitempty"`
	GPUs             []int32           `json:"gpus"`
	SecondaryDevices []SecondaryDevice `json:"secondary_devices"`
	Profile          []string          `json:"profile"`
	Passive          bool              `json:"passive"`
	HostPolicy       string            `json:"host_policy"`
}

// SecondaryDevice is an accelerator beside the instance's own device.
type SecondaryDevice struct {
	Kind     string `json:"kind"`
	DeviceID int64  `json:"device_id"`
}

// RateLimiter says what an instance needs before it may run.
type RateLimiter struct {
	Resources []RateLimiterResource `json:"resources"`
	Priority  uint32                `json:"priority"`
}

// RateLimiterResource is a named, counted resource.
type RateLimiterResource struct {
	Name   string `json:"name"`
	Global bool   `json:"global"`
	Count  uint32 `json:"count"`
}

// Optimization carries hints for the backend.
type Optimization struct {
	Graph                       *GraphOptimization     `json:"graph,omitempty"`
	Priority                    string                 `json:"priority"`
	CUDA                        *CUDAOptimization      `json:"cuda,omitempty"`
	ExecutionAccelerators       *ExecutionAccelerators `json:"execution_accelerators,omitempty"`
	InputPinnedMemory           *Switch                `json:"input_pinned_memory,omitempty"`
	OutputPinnedMemory          *Switch                `json:"output_pinned_memory,omitempty"`
	GatherKernelBufferThreshold uint32                 `json:"gather_kernel_buffer_threshold"`
	EagerBatching               bool                   `json:"eager_batching"`
}

// GraphOptimization is the backend's graph optimisation level: 0 all, -1 basic, 1 extended, 2 none.
type GraphOptimization struct {
	Level int32 `json:"level"`
}

// CUDAOptimization carries CUDA options; they have no effect on ONNX models.
type CUDAOptimization struct {
	Graphs         bool `json:"graphs"`
	BusyWaitEvents bool `json:"busy_wait_events"`
	// the shapes for which a CUDA graph is captured
	GraphSpec []struct {
		BatchSize int32 `json:"batch_size"`
		Input     map[string]struct {
			Dim []int64 `json:"dim"`
		} `json:"input"`
		GraphLowerBound *struct { // the smallest shape that the graph serves
			BatchSize int32 `json:"batch_size"`
			Input     map[string]struct {
				Dim []int64 `json:"dim"`
			} `json:"input"`
		} `json:"graph_lower_bound,omitempty"`
	} `json:"graph_spec"`
	OutputCopyStream bool `json:"output_copy_stream"`
}

// ExecutionAccelerators lists the accelerators of each device kind, first choice first.
type ExecutionAccelerators struct {
	GPU []Accelerator `json:"gpu_execution_accelerator"`
	CPU []Accelerator `json:"cpu_execution_accelerator"`
}

// Accelerators returns the accelerators that m names.
func (m *Model) Accelerators() ExecutionAccelerators {
	if m.Optimization == nil || m.Optimization.ExecutionAccelerators == nil {
		return ExecutionAccelerators{}
	}
	return *m.Optimization.ExecutionAccelerators
}

// Accelerator is an execution provider and its options.
type Accelerator struct {
	Name       string            `json:"name"`
	Parameters map[string]string `json:"parameters"`
}

// DynamicBatching lets the scheduler combine requests.
type DynamicBatching struct {
	PreferredBatchSize   []int32                `json:"preferred_batch_size"`
	MaxQueueDelay        uint64                 `json:"max_queue_delay_microseconds"` // microseconds
	PreserveOrdering     bool                   `json:"preserve_ordering"`
	PriorityLevels       uint64                 `json:"priority_levels"`
	DefaultPriorityLevel uint64                 `json:"default_priority_level"`
	DefaultQueuePolicy   *QueuePolicy           `json:"default_queue_policy,omitempty"`
	PriorityQueuePolicy  map[string]QueuePolicy `json:"priority_queue_policy"` // keys are levels, decimal
}

// QueuePolicy bounds a queue.
type QueuePolicy struct {
	TimeoutAction        string `json:"timeout_action"` // REJECT or DELAY
	DefaultTimeout       uint64 `json:"default_timeout_microseconds"`
	AllowTimeoutOverride bool   `json:"allow_timeout_override"`
	MaxQueueSize         uint32 `json:"max_queue_size"` // 0: the box's own bound
}

// ModelParam is a named value for the backend or for the user.
type ModelParam struct {
	StringValue string `json:"string_value"`
}

// ModelWarmup is a request that every instance runs before it is ready.
type ModelWarmup struct {
	Name      string                 `json:"name"`
	BatchSize uint32                 `json:"batch_size"`
	Inputs    map[string]WarmupInput `json:"inputs"`
	Count     uint32                 `json:"count"` // 0: once
}

// WarmupInput is one input of a ModelWarmup. Exactly one source of data is set.
type WarmupInput struct {
	DataType      DataType `json:"data_type"`
	Dims          Shape    `json:"dims"`
	ZeroData      bool     `json:"zero_data,omitempty"`
	RandomData    bool     `json:"random_data,omitempty"`
	InputDataFile string   `json:"input_data_file,omitempty"` // in the model's warmup folder
}

// ModelTransactionPolicy says how many responses a request has; decoupled models send any number.
type ModelTransactionPolicy struct {
	Decoupled bool `json:"decoupled"`
}

// Decoupled tells whether a request to the model may have any number of responses.
func (m *Model) Decoupled() bool {
	return m.ModelTransactionPolicy != nil && m.ModelTransactionPolicy.Decoupled
}

// ModelRepositoryAgents lists agents that run when a model is loaded.
type ModelRepositoryAgents struct {
	Agents []RepositoryAgent `json:"agents"`
}

// RepositoryAgent is one agent and its options.
type RepositoryAgent struct {
	Name       string            `json:"name"`
	Parameters map[string]string `json:"parameters"`
}

// Switch turns a feature on or off.
type Switch struct {
	Enable bool `json:"enable"`
}

// MetricControl adjusts one family of metrics.
type MetricControl struct {
	MetricIdentifier *struct {
		Family string `json:"family"`
	} `json:"metric_identifier,omitempty"`
	HistogramOptions *struct {
		Buckets []float64 `json:"buckets"`
	} `json:"histogram_options,omitempty"`
}

// InstanceKind says where an instance group runs.
type InstanceKind string

// The instance kinds. The empty kind is KIND_AUTO.
const (
	KindAuto InstanceKind = "KIND_AUTO"
	KindGPU  InstanceKind = "KIND_GPU"
	KindCPU  InstanceKind = "KIND_CPU"
)

// TensorFormat is the informational layout of an input.
type TensorFormat string

// The tensor formats. The empty format is FORMAT_NONE.
const (
	FormatNone TensorFormat = "FORMAT_NONE"
	FormatNHWC TensorFormat = "FORMAT_NHWC"
	FormatNCHW TensorFormat = "FORMAT_NCHW"
)

// Inputs returns the specs of the inputs as a client sees them, in declared order.
func (m *Model) Inputs() []Spec {
	specs := make([]Spec, len(m.Input))
	for i, in := range m.Input {
		specs[i] = Spec{Name: in.Name, Type: in.DataType, Shape: m.batched(in.Dims), Optional: in.Optional}
	}
	return specs
}

// Outputs returns the specs of the outputs as a client sees them, in declared order.
func (m *Model) Outputs() []Spec {
	specs := make([]Spec, len(m.Output))
	for i, out := range m.Output {
		specs[i] = Spec{Name: out.Name, Type: out.DataType, Shape: m.batched(out.Dims)}
	}
	return specs
}

// Tensors describes the inputs and outputs as a client sees them.
func (m *Model) Tensors() (inputs, outputs []TensorInfo) {
	info := func(s Spec) TensorInfo {
		t := TensorInfo{Name: s.Name, Type: s.Type, Datatype: s.Type.String(), Shape: s.Shape, Optional: s.Optional}
		if m.MaxBatchSize > 0 {
			t.Dims = make([]string, len(s.Shape))
			t.Dims[0] = "batch"
		}
		return t
	}
	for _, s := range m.Inputs() {
		inputs = append(inputs, info(s))
	}
	for _, s := range m.Outputs() {
		outputs = append(outputs, info(s))
	}
	return inputs, outputs
}

// output returns the declared output of a name, nil when there is none.
func (m *Model) output(name string) *ModelOutput {
	for i := range m.Output {
		if m.Output[i].Name == name {
			return &m.Output[i]
		}
	}
	return nil
}

func (m *Model) batched(dims Shape) Shape {
	if m.MaxBatchSize == 0 {
		return dims
	}
	return append(Shape{-1}, dims...)
}
