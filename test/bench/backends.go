package main

// backendScenarios are those of the table backends: models in processes of other programs.
func backendScenarios() []scenario {
	return []scenario{
		{"backends", "calls/small", callFigures(smallCall)},
		{"backends", "calls/large", callFigures(largeCall)},
		{"backends", "joined", joinedFigures},
		{"backends", "hops", hopsFigures},
		{"backends", "recovery", recoveryFigures},
		{"backends", "cancel", cancelFigures},
		{"backends", "beside", besideFigures},
	}
}
