package config

import (
	"strconv"
	"strings"
)

// maxResources bounds engine.rate_limit_resources.
const maxResources = 64

// Resources reads engine.rate_limit_resources, which has been checked: how much there is, by name.
func (e *Engine) Resources() map[string]int {
	resources, _ := resourcesOf(e.RateLimitResources)
	return resources
}

// resourcesOf reads entries as name:count. A name may hold colons itself.
func resourcesOf(entries []string) (resources map[string]int, ok bool) {
	resources = map[string]int{}
	for _, entry := range entries {
		at := strings.LastIndexByte(entry, ':')
		if at < 1 {
			return nil, false
		}
		n, err := strconv.ParseUint(entry[at+1:], 10, 32)
		if _, known := resources[entry[:at]]; known || err != nil {
			return nil, false
		}
		resources[entry[:at]] = int(n)
	}
	return resources, len(entries) <= maxResources
}

func areResources(field any) bool {
	_, ok := resourcesOf(*field.(*[]string))
	return ok
}
