package admin

import (
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	contentionSeconds = 5      // how long a block or mutex profile looks unless told
	maxProfileSeconds = 300    // how long any profile looks at most
	maxProfiles       = 4      // requests for profiles at once; one more gets 503
	blockRateNanos    = 10_000 // one sample for each 10 µs blocked
	mutexFraction     = 10     // one of 10 contended unlocks
)

// addProfiles serves what net/http/pprof does, on this endpoint only, to a few
// at once and for a bounded time.
func addProfiles(mux *http.ServeMux) {
	free := make(chan struct{}, maxProfiles)
	handle := func(path string, h http.Handler) {
		mux.HandleFunc("GET /debug/pprof/"+path, func(w http.ResponseWriter, r *http.Request) {
			if text := r.URL.Query().Get("seconds"); text != "" {
				if n, err := strconv.Atoi(text); err != nil || n < 1 || n > maxProfileSeconds {
					http.Error(w, "seconds is 1.."+strconv.Itoa(maxProfileSeconds), http.StatusBadRequest)
					return
				}
			}
			select {
			case free <- struct{}{}:
				defer func() { <-free }()
				h.ServeHTTP(w, r)
			default:
				w.Header().Set("Retry-After", "1")
				http.Error(w, "too many profiles at once", http.StatusServiceUnavailable)
			}
		})
	}
	handle("", http.HandlerFunc(pprof.Index))
	handle("cmdline", http.HandlerFunc(programName))
	handle("profile", http.HandlerFunc(pprof.Profile))
	handle("symbol", http.HandlerFunc(pprof.Symbol))
	handle("trace", http.HandlerFunc(pprof.Trace))
	handle("block", &contention{name: "block", on: func() func() {
		runtime.SetBlockProfileRate(blockRateNanos)
		return func() { runtime.SetBlockProfileRate(0) }
	}})
	handle("mutex", &contention{name: "mutex", on: func() func() {
		before := runtime.SetMutexProfileFraction(mutexFraction)
		return func() { runtime.SetMutexProfileFraction(before) }
	}})
}

// programName is what pprof shows of the command line: the rest of it may hold
// a secret, and this endpoint asks for no password.
func programName(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte(os.Args[0]))
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
		seconds, _ = strconv.Atoi(text) // judged before
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
