// Command cert-manager runs the parts of cert-manager that a cluster with a CA issuer needs.
//
// cert-manager's own main packages are in Go modules that the module proxy cannot serve, because their paths are not
// those of their folders. This program replaces these main packages: it starts cert-manager's own controllers, webhook
// and CA injector, which are in cert-manager's main module. It knows the flags that cert-manager's chart sets by
// default, and it has no leader election, so each part must run once. It supports issuers of the types CA and
// self-signed only.
//
// The first argument is the part: controller, webhook, cainjector or startupapicheck.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	admission "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cert-manager/cert-manager/internal/webhook"
	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	"github.com/cert-manager/cert-manager/pkg/healthz"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/util"
	"github.com/cert-manager/cert-manager/pkg/util/cmapichecker"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
)

// The port of the controllers' liveness probe (containerPort http-healthz in the chart).
const health = ":9403"

func main() {
	parts := map[string]func(context.Context, []string) error{
		"controller":      runControllers,
		"webhook":         runWebhook,
		"cainjector":      runInjector,
		"startupapicheck": checkAPI,
	}
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: cert-manager controller|webhook|cainjector|startupapicheck")
		os.Exit(2)
	}
	ctrl.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := parts[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "cert-manager %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// flags returns an empty set of flags, which ignores unknown flags. The chart sets flags that this program does not
// need, such as those of ACME issuers.
func flags(name string) *pflag.FlagSet {
	set := pflag.NewFlagSet(name, pflag.ContinueOnError)
	set.ParseErrorsAllowlist.UnknownFlags = true
	return set
}

// runControllers runs the controllers of issuers and certificates.
func runControllers(ctx context.Context, arguments []string) error {
	set := flags("controller")
	namespace := set.String("cluster-resource-namespace", "", "namespace of the Secrets of ClusterIssuers")
	if err := set.Parse(arguments); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		KubernetesAPIQPS:   20,
		KubernetesAPIBurst: 50,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: *namespace},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return err
	}
	for name, construct := range controller.Known() {
		one, err := construct(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		group.Go(func() error { return one.Run(5, ctx) })
	}
	// All controllers share the informers of this factory, and have registered theirs by now.
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	listener, err := net.Listen("tcp", health)
	if err != nil {
		return err
	}
	group.Go(func() error { return healthz.NewServer(time.Minute).Start(ctx, listener) })
	return group.Wait()
}

// runWebhook serves the admission webhooks.
func runWebhook(ctx context.Context, arguments []string) error {
	configuration, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	set := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	options.AddConfigFlags(set, configuration)
	if err := set.Parse(arguments); err != nil {
		return err
	}
	server, err := webhook.NewCertManagerWebhookServer(klog.Background(), *configuration)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}

// runInjector writes the CA of the webhook into the configuration of the webhook.
func runInjector(ctx context.Context, _ []string) error {
	configuration, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{admission.AddToScheme, core.AddToScheme, certmanager.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(configuration, "cainjector"), ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		// The injector watches only the metadata of Secrets, so it must read their data from the API server.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&core.Secret{}}}},
	})
	if err != nil {
		return err
	}
	err = cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{EnabledReconcilersFor: map[string]bool{
		cainjector.MutatingWebhookConfigurationName:   true,
		cainjector.ValidatingWebhookConfigurationName: true,
	}})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// checkAPI waits until the API server has accepted and refused objects with the help of the webhook.
func checkAPI(ctx context.Context, arguments []string) error {
	set := flags("startupapicheck")
	patience := set.Duration("wait", time.Minute, "maximum time to wait")
	if err := set.Parse(arguments); err != nil {
		return err
	}
	configuration, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	checker, err := cmapichecker.New(configuration, os.Getenv("POD_NAMESPACE"))
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, time.Second, *patience, true, func(ctx context.Context) (bool, error) {
		last = checker.Check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}
