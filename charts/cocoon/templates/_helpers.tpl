{{/* Names are fixed: there is one cocoon in a cluster, since its CRDs are the cluster's. */}}
{{- define "cocoon.labels" -}}
app.kubernetes.io/part-of: cocoon
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "cocoon.operator.labels" -}}
app.kubernetes.io/name: cocoon-operator
app.kubernetes.io/component: controller
{{ include "cocoon.labels" . }}
{{- end }}

{{- define "cocoon.node.labels" -}}
app.kubernetes.io/name: vk-cocoon
app.kubernetes.io/component: node-agent
{{ include "cocoon.labels" . }}
{{- end }}

{{- define "cocoon.node.namespace" -}}
{{ .Values.node.namespace | default .Release.Namespace }}
{{- end }}

{{- define "cocoon.image" -}}
{{- $image := index . 0 -}}{{- $root := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "cocoon.registrySecret" -}}
{{- if .Values.registry.existingSecret -}}{{ .Values.registry.existingSecret }}
{{- else if .Values.registry.dockerConfigJson -}}cocoon-registry
{{- end -}}
{{- end }}

{{/* How both daemons reach the registry: variables, mounts and volumes. */}}
{{- define "cocoon.registry.env" -}}
- {name: OCI_REGISTRY, value: {{ .Values.registry.url | quote }}}
{{- if include "cocoon.registrySecret" . }}
- {name: DOCKER_CONFIG, value: /etc/cocoon/registry}
{{- end }}
{{- if .Values.registry.googleKeySecret }}
- {name: GOOGLE_APPLICATION_CREDENTIALS, value: /var/run/secrets/gcp/key.json}
{{- end }}
{{- if .Values.registry.caConfigMap }}
- {name: SSL_CERT_FILE, value: /etc/cocoon/registry-ca/ca.crt}
{{- end }}
{{- end }}

{{- define "cocoon.registry.mounts" -}}
{{- if include "cocoon.registrySecret" . }}
- {name: registry, mountPath: /etc/cocoon/registry, readOnly: true}
{{- end }}
{{- if .Values.registry.googleKeySecret }}
- {name: gcp-ar-writer-key, mountPath: /var/run/secrets/gcp, readOnly: true}
{{- end }}
{{- if .Values.registry.caConfigMap }}
- {name: registry-ca, mountPath: /etc/cocoon/registry-ca, readOnly: true}
{{- end }}
{{- end }}

{{- define "cocoon.registry.volumes" -}}
{{- with include "cocoon.registrySecret" . }}
- name: registry
  secret:
    secretName: {{ . }}
    items: [{key: .dockerconfigjson, path: config.json}]
{{- end }}
{{- with .Values.registry.googleKeySecret }}
- name: gcp-ar-writer-key
  secret: {secretName: {{ . }}}
{{- end }}
{{- with .Values.registry.caConfigMap }}
- name: registry-ca
  configMap: {name: {{ . }}}
{{- end }}
{{- end }}

{{/* What the `restricted` Pod Security profile asks for, and a root that cannot be written. */}}
{{- define "cocoon.restricted.pod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- define "cocoon.restricted.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* What a hook's Pod needs is there before it and goes with it. */}}
{{- define "cocoon.hook.upgrade" -}}
helm.sh/hook: pre-upgrade,pre-rollback
helm.sh/hook-weight: "-10"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
{{- define "cocoon.hook.test" -}}
helm.sh/hook: test
helm.sh/hook-weight: "-10"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- define "cocoon.admission.enabled" -}}
{{- $has := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- if or (eq .Values.admission.policies "on") (and (eq .Values.admission.policies "auto") $has) }}yes{{ end -}}
{{- end }}

{{/* The rules for pods and workloads leave these namespaces alone. */}}
{{- define "cocoon.admission.namespaces" -}}
{{- $own := list "kube-system" "kube-node-lease" "kube-public" .Release.Namespace (include "cocoon.node.namespace" .) -}}
namespaceSelector:
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ uniq (concat $own .Values.admission.excludedNamespaces) | toJson }}
{{- end }}

{{/* CEL: does this pod (template) belong onto a cocoon node? */}}
{{- define "cocoon.cel.tolerates" -}}
(has({{ . }}.spec.tolerations) && {{ . }}.spec.tolerations.exists(t, has(t.key) && t.key == 'virtual-kubelet.io/provider'))
{{- end }}
{{- define "cocoon.cel.gated" -}}
({{ include "cocoon.cel.tolerates" . }} || (has({{ . }}.metadata.annotations) && 'vm.cocoonstack.io/name' in {{ . }}.metadata.annotations))
{{- end }}

{{/* CEL: the texts of an agent or a toolbox, "" where absent. Arguments: the map, its path. */}}
{{- define "cocoon.cel.item" -}}
{{- $from := index . 0 -}}
{'p': {{ index . 1 }}
{{- range list "name" "image" "mode" "os" "backend" "connType" "staticIP" "staticVMID" }},
 '{{ . }}': has({{ $from }}.{{ . }}) ? string({{ $from }}.{{ . }}) : ''
{{- end }} }
{{- end }}

{{/* CEL: violations V1 to V5 of t (contract/01 9.6); V2 apart, since static toolboxes know only that one. */}}
{{- define "cocoon.cel.V1" -}}
(t.os in ['', 'linux', 'windows', 'android', 'macos'] ? [] : [t.p + '.os must be linux, windows, android, or macos, got "' + t.os + '"'])
{{- end }}
{{- define "cocoon.cel.V2" -}}
(t.connType in ['', 'ssh', 'rdp', 'vnc', 'adb'] ? [] : [t.p + '.connType must be ssh, rdp, vnc, or adb, got "' + t.connType + '"'])
{{- end }}
{{- define "cocoon.cel.V3to5" -}}
(t.backend in ['', 'cloud-hypervisor', 'firecracker'] ? [] : [t.p + '.backend must be cloud-hypervisor or firecracker, got "' + t.backend + '"']) +
(t.backend == 'firecracker' && t.os == 'windows' ? [t.p + ': firecracker does not support Windows guests'] : []) +
(t.backend == 'firecracker' && (t.image.startsWith('http://') || t.image.startsWith('https://')) ?
 [t.p + ': firecracker requires an OCI image, cloudimg URLs are not supported (got "' + t.image + '")'] : [])
{{- end }}
{{/* M1 and M2; the argument is the mode that an absent one means. */}}
{{- define "cocoon.cel.M" -}}
(t.backend == 'firecracker' && (t.mode == '' ? '{{ . }}' : t.mode) != 'run' ?
 [t.p + ': firecracker does not support ' + (t.mode == '' ? '{{ . }}' : t.mode) + ' mode, use mode=run instead'] : []) +
((t.mode == '' ? '{{ . }}' : t.mode) == 'clone' && t.image != '' && !t.image.matches(variables.reference) ?
 [t.p + '.image "' + t.image + '" must be repo[:tag] when mode is clone (no registry port or digest)'] : [])
{{- end }}
{{/* A1 and T7: the length of the VM name of pod <set>-<suffix>. Arguments: item, suffix. A hash cannot be computed here. */}}
{{- define "cocoon.cel.budget" -}}
{{- $t := index . 0 -}}{{- $suffix := index . 1 -}}
(size(variables.prefix) + size({{ $suffix }}) + 7 > ({{ $t }}.os == 'macos' ? 63 : 46) ?
 [{{ $t }}.p + ' derives VM name "' + (variables.prefix + {{ $suffix }}).replace('.', '-') + '-<hash>" (' +
  string(size(variables.prefix) + size({{ $suffix }}) + 7) + ' characters); maximum is ' +
  ({{ $t }}.os == 'macos' ? '63' : '46 to reserve the hibernate import suffix')] : [])
{{- end }}
