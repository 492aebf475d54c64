{{- define "edgewise.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "edgewise.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "edgewise.labels" -}}
{{ include "edgewise.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "edgewise.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* The names of the services, under which the box is addressed. */ -}}
{{- define "edgewise.hosts" -}}
{{- $space := .Release.Namespace -}}
{{- $hosts := list -}}
{{- range list (include "edgewise.name" .) (printf "%s-pods" (include "edgewise.name" .)) -}}
{{- $hosts = concat $hosts (list . (printf "%s.%s" . $space) (printf "%s.%s.svc" . $space) (printf "%s.%s.svc.cluster.local" . $space)) -}}
{{- end -}}
{{ toJson $hosts }}
{{- end }}

{{- /* The keys of appliance.yaml: the image's, those that the pod's life needs, and the user's over them. */ -}}
{{- define "edgewise.config" -}}
{{- $hosts := concat (fromJsonArray (include "edgewise.hosts" .)) (dig "http" "allowed_hosts" list .Values.config) -}}
{{- $own := dict
  "data_dir" "/var/lib/edgewise"
  "auth" "open"
  "safe_start" .Values.persistence.enabled
  "tls" (dict "mode" "off")
  "http" (dict "address" ":8000")
  "grpc" (dict "address" ":8001")
  "metrics" (dict "address" ":8002" "public" true)
  "repository" (dict "folders" (list "/mnt/models"))
  "store" (dict "reserve_bytes" 0)
  "shutdown" (dict "delay" (printf "%ds" (int .Values.drainSeconds)) "timeout" (printf "%ds" (int .Values.stopSeconds))) -}}
{{ toYaml (mergeOverwrite $own (deepCopy .Values.config) (dict "http" (dict "allowed_hosts" $hosts))) }}
{{- end }}

{{- define "edgewise.pod" -}}
metadata:
  labels:
    {{- include "edgewise.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    checksum/config: {{ include "edgewise.config" . | sha256sum }}
    {{- if .Values.scrape }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "8002"
    prometheus.io/path: /metrics
    {{- end }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- if and .Values.gpu.count .Values.gpu.runtimeClassName }}
  runtimeClassName: {{ .Values.gpu.runtimeClassName }}
  {{- end }}
  terminationGracePeriodSeconds: {{ add .Values.drainSeconds .Values.stopSeconds 15 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: edgewise
      image: {{ include "edgewise.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      {{- with .Values.env }}
      env: {{ toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: rest, containerPort: 8000}
        - {name: grpc, containerPort: 8001}
        - {name: metrics, containerPort: 8002}
      startupProbe:
        httpGet: {path: /v2/health/live, port: rest}
        periodSeconds: 2
        failureThreshold: {{ max 1 (div (int .Values.startSeconds) 2) }}
      readinessProbe:
        httpGet: {path: /v2/health/ready, port: rest}
        periodSeconds: 2
        failureThreshold: 1
      livenessProbe:
        httpGet: {path: /v2/health/live, port: rest}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      resources:
        {{- $resources := deepCopy .Values.resources }}
        {{- if .Values.gpu.count }}
        {{- $_ := set $resources "limits" (merge (dict .Values.gpu.resource .Values.gpu.count) ($resources.limits | default dict)) }}
        {{- end }}
        {{- toYaml $resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/edgewise, readOnly: true}
        - {name: data, mountPath: /var/lib/edgewise}
        - {name: models, mountPath: /mnt/models, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        - {name: shm, mountPath: /dev/shm}
  volumes:
    - name: config
      configMap: {name: {{ include "edgewise.name" . }}}
    - name: models
      {{- toYaml (.Values.models | default (dict "emptyDir" dict)) | nindent 6 }}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    - name: shm
      emptyDir: {medium: Memory, sizeLimit: 1Gi}
    {{- if not .Values.persistence.enabled }}
    - name: data
      emptyDir: {sizeLimit: {{ .Values.persistence.ephemeralSize }}}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{ toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{ include "edgewise.selector" . | nindent 10 }}
    {{- end }}
{{- end }}
