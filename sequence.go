package edgewise

// SequenceBatching keeps the requests of a sequence on one instance.
type SequenceBatching struct {
	MaxSequenceIdle   uint64          `json:"max_sequence_idle_microseconds"`
	ControlInput      []ControlInput  `json:"control_input"`
	Direct            *DirectStrategy `json:"direct,omitempty"`
	Oldest            *OldestStrategy `json:"oldest,omitempty"`
	State             []SequenceState `json:"state"`
	IterativeSequence bool            `json:"iterative_sequence"`
}

// DirectStrategy gives each sequence a row of one instance's batch.
type DirectStrategy struct {
	MaxQueueDelay          uint64  `json:"max_queue_delay_microseconds"`
	MinimumSlotUtilization float32 `json:"minimum_slot_utilization"`
}

// OldestStrategy batches the oldest request of each sequence.
type OldestStrategy struct {
	MaxCandidateSequences int32   `json:"max_candidate_sequences"`
	PreferredBatchSize    []int32 `json:"preferred_batch_size"`
	MaxQueueDelay         uint64  `json:"max_queue_delay_microseconds"`
	PreserveOrdering      bool    `json:"preserve_ordering"`
}

// ControlInput is an input that tells the model about the sequence.
type ControlInput struct {
	Name    string    `json:"name"`
	Control []Control `json:"control"`
}

// Control is one signal of a ControlInput.
type Control struct {
	Kind           string    `json:"kind"`
	Int32FalseTrue []int32   `json:"int32_false_true"`
	FP32FalseTrue  []float32 `json:"fp32_false_true"`
	BoolFalseTrue  []bool    `json:"bool_false_true"`
	DataType       DataType  `json:"data_type"`
}

// SequenceState is an output that becomes an input of the sequence's next request.
type SequenceState struct {
	InputName                   string         `json:"input_name"`
	OutputName                  string         `json:"output_name"`
	DataType                    DataType       `json:"data_type"`
	Dims                        Shape          `json:"dims"`
	InitialState                []InitialState `json:"initial_state"`
	UseSameBufferForInputOutput bool           `json:"use_same_buffer_for_input_output"`
	UseGrowableMemory           bool           `json:"use_growable_memory"`
}

// InitialState is what a SequenceState begins with: zeros or a file in the model's initial_state folder.
type InitialState struct {
	Name     string   `json:"name"`
	DataType DataType `json:"data_type"`
	Dims     Shape    `json:"dims"`
	ZeroData bool     `json:"zero_data,omitempty"`
	DataFile string   `json:"data_file,omitempty"`
}
