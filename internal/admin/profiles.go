package admin

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	contentionSeconds    = 5      // how long a block or mutex profile looks unless told
	maxContentionSeconds = 300    // and at most
	blockRateNanos       = 10_000 // one sample for each 10 µs blocked
	mutexFraction        = 10     // one of 10 contended unlocks
)

// addProfiles serves what net/http/pprof does, on this endpoint only.
func addProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("GET /debug/pprof/block", &contention{name: "block", on: func() func() {
		runtime.SetBlockProfileRate(blockRateNanos)
		return func() { runtime.SetBlockProfileRate(0) }
	}})
	mux.Handle("GET /debug/pprof/mutex", &contention{name: "mutex", on: func() func() {
		before := runtime.SetMutexProfileFraction(mutexFraction)
		return func() { runtime.SetMutexProfileFraction(before) }
	}})
}

// contention serves a profile that costs something while it is taken. It is
// switched on by a request, for the seconds that the request looks, and off
// when the last request that needs it ends; the server runs without it
// otherwise.
type contention struct {
	name string
	on   func() (off func())

	mu      sync.Mutex
	looking int    // requests that look now
	off     func() // set while looking > 0
}

func (c *contention) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	seconds := contentionSeconds
	if text := query.Get("seconds"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxContentionSeconds {
			http.Error(w, "seconds is 1.."+strconv.Itoa(maxContentionSeconds), http.StatusBadRequest)
			return
		}
		seconds = n
	}
	look := time.Duration(seconds) * time.Second
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(look + writeTimeout))
	c.begin()
	defer c.end()
	if debug := query.Get("debug"); debug != "" && debug != "0" {
		// Text shows all that was ever seen, with this look included.
		select {
		case <-time.After(look):
		case <-r.Context().Done():
		}
		query.Del("seconds")
	} else {
		query.Set("seconds", strconv.Itoa(seconds))
	}
	asked := r.Clone(r.Context())
	asked.URL.RawQuery = query.Encode()
	pprof.Handler(c.name).ServeHTTP(w, asked)
}

func (c *contention) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looking == 0 {
		c.off = c.on()
	}
	c.looking++
}

func (c *contention) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looking--; c.looking == 0 {
		c.off()
	}
}
