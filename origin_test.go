package edgewise

import (
	"strings"
	"testing"
)

func TestCheckOrigin(t *testing.T) {
	for origin, good := range map[string]bool{
		"*": true, "https://shop.example": true, "http://localhost:5173": true, "http://[::1]:8080": true,
		"http://192.168.1.9": true,
		"":                   false, "null": false, "shop.example": false, "https://": false, "https://shop.example/": false,
		"https://shop.example/x": false,
		"https://Shop.example":   false, "HTTPS://shop.example": false, "https://user@shop.example": false,
		"ftp://shop.example":       false,
		"https://shop.example:443": false, "http://shop.example:80": false, "https://*.example": false, "https://a b": false,
		"https://shop.example?x": false, "https://shop.example#x": false, "https://" + strings.Repeat("a", 300): false,
	} {
		if err := CheckOrigin(origin); (err == nil) != good || err != nil && KindOf(err) != Invalid {
			t.Errorf("%q: %v", origin, err)
		}
	}
}
