{{- define "vcsync.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "vcsync.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: vcsync
{{- end -}}

{{- /* The fields of a container that are the same for all. */ -}}
{{- define "vcsync.container" -}}
image: {{ include "vcsync.image" . | quote }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "vcsync.securityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- /* The fields of a Pod that are the same for all: root, name. */ -}}
{{- define "vcsync.pod" -}}
{{- $values := .root.Values -}}
automountServiceAccountToken: true
enableServiceLinks: false
# Long enough to finish what is in flight and to release the Lease.
terminationGracePeriodSeconds: 60
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        app.kubernetes.io/name: {{ .name }}
{{- with $values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $values.priorityClassName | default (ternary "vcsync" "" $values.priorityClass.create) }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "vcsync.podMetadata" -}}
labels:
  {{- include "vcsync.labels" . | nindent 2 }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* The Deployment of a role: root, name, component, settings, arguments; ports, environment, volumes and mounts are YAML. */ -}}
{{- define "vcsync.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "vcsync.labels" . | nindent 4 }}
spec:
  replicas: {{ .settings.replicas }}
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
  template:
    metadata:
      {{- include "vcsync.podMetadata" . | nindent 6 }}
    spec:
      serviceAccountName: vcsync-{{ .component }}
      {{- include "vcsync.pod" . | nindent 6 }}
      securityContext:
        {{- include "vcsync.securityContext" . | nindent 8 }}
      containers:
        - name: {{ .component }}
          {{- include "vcsync.container" .root | nindent 10 }}
          command: [vcsync]
          args:
            - run
            - {{ .component }}
            {{- range .arguments }}
            - {{ . | quote }}
            {{- end }}
            - --listen=0.0.0.0:8080
            - --identity=$(POD_NAME)
            {{- range concat .last .settings.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            {{- with .environment }}
            {{- . | nindent 12 }}
            {{- end }}
          ports:
            - name: status
              containerPort: 8080
            {{- with .ports }}
            {{- . | nindent 12 }}
            {{- end }}
          readinessProbe:
            httpGet:
              path: /readyz
              port: status
              scheme: HTTPS
            periodSeconds: 5
            timeoutSeconds: 3
          livenessProbe:
            httpGet:
              path: /livez
              port: status
              scheme: HTTPS
            initialDelaySeconds: 10
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          resources:
            {{- toYaml .settings.resources | nindent 12 }}
          # A container that is started again proves by a lock in here that its predecessor has ended, and leads at once.
          volumeMounts:
            - name: locks
              mountPath: /tmp
            {{- with .mounts }}
            {{- . | nindent 12 }}
            {{- end }}
      volumes:
        - name: locks
          emptyDir:
            medium: Memory
            sizeLimit: 1Mi
        {{- with .volumes }}
        {{- . | nindent 8 }}
        {{- end }}
{{- end -}}
