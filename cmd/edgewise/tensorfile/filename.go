package tensorfile

import "strings"

// FileName returns a file name for a tensor and notes it in used. Characters that a file name cannot hold become
// underscores; where two names become the same one, the later has one more behind it.
func FileName(used map[string]bool, tensor string) string {
	name := strings.Map(fileRune, tensor)
	for used[name] {
		name += "_"
	}
	used[name] = true
	return name
}

func fileRune(r rune) rune {
	if strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' {
		return '_'
	}
	return r
}
