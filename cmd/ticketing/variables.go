package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// clientVariables are the TICKETING_ variables there are: settings of the client
// commands, and what the lock command tells the command it runs.
var clientVariables = map[string]bool{
	"TICKETING_ADDR": true, "TICKETING_TLS_CA": true, "TICKETING_TLS_CERT": true, "TICKETING_TLS_KEY": true,
	"TICKETING_WAIT": true, "TICKETING_LEASE": true, "TICKETING_MIN_WORK_BUDGET": true, "TICKETING_GRACE": true,
	keyVariable: true, tokenVariable: true,
}

// injected matches what Kubernetes sets in every container beside a Service
// whose name begins with "ticketing". Nobody chose these.
var injected = regexp.MustCompile(`^TICKETING(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// checkVariables refuses a variable that looks like a setting and is none: the
// settings of a node have no prefix, and few others do.
func checkVariables(environ []string) error {
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "TICKETING_") || clientVariables[name] || injected.MatchString(name) {
			continue
		}
		known := strings.Join(slices.Sorted(maps.Keys(clientVariables)), ", ")
		return settingFailed(fmt.Errorf("unknown variable %s: settings have no prefix, as in MAX_KEYS; with one there are only %s", name, known))
	}
	return nil
}
