package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"ticketing/bench"
)

// cli is the command line: one field for each command.
type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run a node: single mode, in memory, on loopback without any setting."`
	Lock    lockCmd    `cmd:"" help:"Acquire a key, run a command, release the key."`
	Acquire acquireCmd `cmd:"" help:"Acquire a key and print the token of the grant."`
	Release releaseCmd `cmd:"" help:"Release a key."`
	Bench   benchCmd   `cmd:"" help:"Load a server and check its answers."`
	Status  statusCmd  `cmd:"" help:"Show what a node says of itself."`
	Cluster clusterCmd `cmd:"" help:"Show and change a cluster."`
	Certs   certsCmd   `cmd:"" help:"Make certificates for the nodes of a cluster, their clients and their client ports."`
	Version versionCmd `cmd:"" help:"Print version, commit and Go version."`
}

// newParser makes the parser of cli. Flags take their environment variables
// from environ and nowhere else, and only those of the command that runs.
func newParser(into *cli, p *process) (*kong.Kong, error) {
	parser, err := kong.New(into,
		kong.Name("ticketing"),
		kong.Description("A lock server: exclusive, leased locks with fair queues and fencing tokens."),
		kong.Vars{"loops": strconv.Itoa(defaultLoops()), "benchthreads": strconv.Itoa(bench.Defaults().Threads)},
		kong.Writers(p.stdout, p.stderr),
		kong.Resolvers(environment(p.environ)),
		kong.ValueFormatter(helpText),
		kong.Help(helpOfDefaults),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
	)
	if err != nil {
		return nil, err
	}
	// kong would look up os.Environ by itself and name the variable in words
	// of its own; Flag.Envs keeps the names for the resolver and the help.
	err = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			flag.Tag.Envs = nil
		}
		return next(nil)
	})
	return parser, err
}

// environment resolves a flag that was not given by its variable. A variable
// that is set counts as given, even when it is empty.
func environment(environ []string) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, name := range flag.Envs {
			if value, ok := lookup(environ, name); ok {
				return value, nil
			}
		}
		return nil, nil
	})
}

// lookup returns a variable's value and whether it is set.
func lookup(environ []string, name string) (string, bool) {
	for _, entry := range environ {
		if n, value, found := strings.Cut(entry, "="); found && n == name {
			return value, true
		}
	}
	return "", false
}

// run parses args and runs the command they name.
func (p *process) run(ctx context.Context, args []string) error {
	var commands cli
	parser, err := newParser(&commands, p)
	if err != nil {
		return err
	}
	helped := false
	parser.Exit = func(int) { helped = true } // only --help exits while parsing
	chosen, err := parser.Parse(args)
	if helped {
		return nil
	}
	if err != nil {
		return plain(err)
	}
	chosen.BindTo(ctx, (*context.Context)(nil))
	return chosen.Run(p)
}

// plain takes a setting's own words out of kong's wrapping, and where a command
// or an argument is missing adds where to look: kong names the first few.
func plain(err error) error {
	var setting *settingError
	var usage *kong.ParseError
	switch {
	case errors.As(err, &setting):
		return settingFailed(setting)
	case !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), "expected "):
		return err
	}
	node := usage.Context.Selected()
	if node == nil {
		node = usage.Context.Model.Node
	}
	if len(node.Children) > 0 {
		return fmt.Errorf("%w; %s --help lists them", err, node.FullPath())
	}
	return fmt.Errorf("%w; usage: ticketing %s", err, node.Summary())
}

// helpText is a flag's line in --help: meaning, default, what is allowed, and
// its variable.
func helpText(value *kong.Value) string {
	text := value.Help
	if value.Flag == nil {
		return text
	}
	if allowed := value.Tag.Get("range"); allowed != "" {
		text += " Allowed: " + allowed + "."
	}
	if shown := shownDefault(value); shown != "" {
		text += " Default: " + shown + "."
	}
	if len(value.Flag.Envs) == 0 {
		return text
	}
	return text + fmt.Sprintf(" ($%s)", value.Flag.Envs[0])
}

// shownDefault is a setting's default as people read it: it may depend on the
// machine. Empty means that there is none.
func shownDefault(value *kong.Value) string {
	if shown := value.Tag.Get("shown"); shown != "" {
		return shown
	}
	return value.Default
}
