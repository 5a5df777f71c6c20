package admin

import (
	"crypto/sha256"
	_ "embed" // the dashboard's three parts
	"encoding/base64"
	"net/http"
	"strings"
)

//go:embed page/dashboard.html
var pageHTML string

//go:embed page/dashboard.css
var pageCSS string

//go:embed page/dashboard.js
var pageJS string

var (
	// page is the dashboard as one document: nothing is loaded from elsewhere,
	// so it works on a host without a way out.
	page = []byte(strings.NewReplacer("/*css*/", pageCSS, "/*js*/", pageJS).Replace(pageHTML))

	// pagePolicy lets the page run its own script, use its own style and ask
	// this server, and nothing else: whatever a key may hold, it cannot act.
	pagePolicy = strings.Join([]string{
		"default-src 'none'",
		"script-src '" + sourceHash(pageJS) + "'",
		"style-src '" + sourceHash(pageCSS) + "'",
		"connect-src 'self'",
		"img-src data:",
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
	}, "; ")
)

// sourceHash names an inline script or style in a Content-Security-Policy.
func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func handlePage(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	w.Write(page)
}
